"""The ledger against the papers' counts, on the meta device: no memory, real shapes."""

from __future__ import annotations

import pytest

import weft


def ledger(method, tasks=8, encoder="random:bert-base", labels=2):
    names = [weft.Task(f"t{i}", size=labels) for i in range(tasks)]
    return weft.Model(encoder, names, method, device="meta").ledger()


def test_lora_on_query_and_value_of_bert_base():
    found = ledger("lora")
    assert set(found["per_task"].values()) == {294_912}
    assert found["shared"] == 0
    assert found["encoder"] == 109_482_240
    assert found["total_ratio"] == pytest.approx(1 + 8 * 294_912 / 109_482_240)
    assert found["trained_percent_per_task"] == pytest.approx(100 * 294_912 / 109_482_240)


def test_morris_counts_lora_and_bitfit_on_a_round_number():
    """Table 2: x1.024 and 0.27 % (0.268 before rounding); Table 1: BitFit x1.008 and 0.09 %."""
    lora, bitfit = ledger("lora", 9)["paper"], ledger("bitfit", 9)["paper"]
    assert (round(lora["total_ratio"], 3), round(lora["trained_percent_per_task"], 3)) == (1.024, 0.268)
    assert (round(bitfit["total_ratio"], 3), round(bitfit["trained_percent_per_task"], 2)) == (1.008, 0.09)
    assert lora["basis"] == 110_000_000
    assert ledger("lora", encoder="random:minilm")["paper"] is None
    assert ledger("full")["paper"] is None


@pytest.mark.parametrize("method", ["lora", "lora_bitfit", "lora_bitfit_mtl", "morris", "bitfit"])
def test_morris_counts_nine_tasks_whatever_the_model_has(method):
    """A.3 divides by nine, though it trains eight; ours stays that of the model."""
    nine, eight = ledger(method, 9), ledger(method, 8)
    for key in ("total_ratio", "trained_percent_per_task"):
        assert eight["paper"][key] == pytest.approx(nine["paper"][key], rel=1e-12)
    assert eight["trained_percent_per_task"] == pytest.approx(100 * eight["trained"] / eight["encoder"] / 8)
    assert (eight["paper"]["tasks"], nine["paper"]["tasks"]) == (9, 9)
    assert "for 9 tasks, as it counts, and not for the 8 of this model" in eight["paper"]["why"]
    assert "this model" not in nine["paper"]["why"]


@pytest.mark.parametrize(
    ("method", "per_task", "ratio", "printed"),
    [
        ("pals", 1_819_836, 1.1330, 1.13),
        ({"use": "pals", "d_s": 84, "share": "none"}, 1_815_552, 1.1327, 1.13),
        ({"use": "pals", "d_s": 276, "layers": "top half"}, 1_801_116, 1.1316, 1.13),
        ({"use": "pals", "d_s": 276, "layers": "bottom half"}, 1_801_116, 1.1316, 1.13),
        ({"use": "pals", "d_s": 276, "layers": "6-11"}, 1_801_116, 1.1316, 1.13),
        ({"use": "pals", "d_s": 276, "layers": "5-10"}, 1_801_116, 1.1316, None),
        ("low_rank", 1_853_616, 1.1354, 1.13),
        ("top_attention", 1_320_444, 1.0965, 1.10),
        ("top_ffn", 1_319_220, 1.0964, 1.10),
        ("top_layer", 7_087_872, 1.5179, 1.66),
        ("houlsby_parallel", 1_862_832, 1.1361, None),
        ("houlsby_pals", 2_053_668, 1.1501, None),
        ("lhuc", 9_216, 1.0007, None),
        ("pals_lhuc", 1_819_836 + 9_216, 1.1337, None),
        ({"use": "pals", "inside": "ffn"}, 1_818_612, 1.1329, None),
        ({"use": "top_ffn", "hidden_layers": 2}, 1_318_932, 1.0964, None),
        ({"use": "pals", "pooler": "task"}, 1_819_836 + 768 * 768 + 768, 1.1761, None),
    ],
)
def test_pals_and_relatives_on_bert_base(method, per_task, ratio, printed):
    """papers.md, section 1: per task with biases, the ratio for eight tasks, and what the paper prints."""
    found = ledger(method)
    assert set(found["per_task"].values()) == {per_task}
    assert found["shared"] == 0
    assert round(found["total_ratio"], 4) == ratio
    assert (found["paper"] and found["paper"]["total_ratio"]) == printed
    assert ledger(method, tasks=9)["paper"] is None
    assert ledger(method, encoder="random:bert-large", tasks=8)["paper"] is None


def test_a_paper_that_is_wrong_is_told_so():
    paper = ledger("top_layer")["paper"]
    assert "error" in paper["why"]
    assert "1.518x" in paper["why"]
    assert "error" not in ledger("pals")["paper"]["why"]


def test_what_pals_share_is_counted_once():
    projections = 2 * 768 * 204 + 204 + 768
    assert ledger({"use": "pals", "share": "both"})["shared"] == projections
    assert ledger({"use": "pals", "share": "tasks"})["shared"] == 12 * projections
    for share in ("both", "tasks"):
        assert set(ledger({"use": "pals", "share": share})["per_task"].values()) == {1_819_836 - projections}


def test_published_houlsby():
    """Two bottlenecks and two norms a layer, and the embeddings' norm: 25 norms."""
    found = ledger({"use": "houlsby", "size": 256})
    assert set(found["per_task"].values()) == {24 * (2 * 768 * 256 + 256 + 768) + 25 * 2 * 768}
    assert found["trained_percent_per_task"] == pytest.approx(
        100 * found["per_task"]["t0"] / found["encoder"]
    )


def test_separate_holds_an_encoder_a_task():
    found = ledger("separate")
    assert found["total_ratio"] == 8.0
    assert found["trained_percent_per_task"] == 100.0
    assert set(found["per_task"].values()) == {found["encoder"]} == {109_482_240}


def test_full_is_shared_by_all():
    found = ledger("full")
    assert (found["total_ratio"], found["trained_percent_per_task"]) == (1.0, 12.5)
    assert ledger("frozen")["trained_percent_per_task"] == 0


def test_bert_bases_biases():
    assert set(ledger("bitfit")["per_task"].values()) == {102_912}
    assert set(ledger({"use": "bitfit", "biases": "dense"})["per_task"].values()) == {82_944}
    own = ledger({"use": "full", "train_encoder": "biases"}, tasks=1)
    assert own["trained_percent_per_task"] == pytest.approx(100 * 102_912 / 109_482_240)


def test_what_is_shared_and_what_is_a_tasks_own():
    one = ledger({"use": "lora", "share": "all"})
    assert (one["shared"], sum(one["per_task"].values())) == (294_912, 0)
    groups = ledger({"use": "lora", "share": {"g": ["t0", "t1"], "h": ["t2", "t3", "t4"]}})
    assert groups["shared"] == 2 * 294_912
    assert groups["per_task"] == {f"t{i}": 294_912 if i > 4 else 0 for i in range(8)}
    both = ledger(["lora", {"use": "bitfit", "share": "all"}])
    assert (both["shared"], both["per_task"]["t0"]) == (102_912, 294_912)


def test_multitask_lora_has_its_size():
    per_set = ledger({"use": "lora", "rank": 20, "sites": "query, key, value"}, 3)
    assert set(per_set["per_task"].values()) == {1_105_920}


def test_heads_are_counted_apart():
    assert ledger("frozen", labels=3)["heads"] == {f"t{i}": 3 * 768 + 3 for i in range(8)}


def test_layers_that_train():
    upper = ledger({"use": "full", "train_encoder": "layers 6-11"}, tasks=1)
    block = 7_087_872
    pooler = 768 * 768 + 768
    expected = (6 * block + pooler) / 109_482_240
    assert upper["trained_percent_per_task"] == pytest.approx(100 * expected)
    lower = ledger({"use": "frozen", "train_encoder": "layers 0-5"}, tasks=1)
    assert lower["trained_percent_per_task"] == pytest.approx(100 * 6 * block / 109_482_240)


@pytest.mark.parametrize(
    ("method", "shared", "own", "percent", "paper"),
    [
        ("morris", 2_691_072, 1_824, 0.2748, 0.273),
        ({"use": "morris", "biases": "all"}, 2_764_800, 1_920, 0.2823, 0.270),  # as A.3 counts
        ({"use": "morris", "biases": "none"}, 2_359_296, 1_536, 0.2408, 0.240),
        ("lora_bitfit", 0, 294_912 + 82_944, 0.3451, 0.344),
        ({"use": "lora_bitfit", "biases": "all"}, 0, 294_912 + 101_376, 0.3620, 0.335),
        ("lora_bitfit_mtl", 2_359_296 + 82_944, 0, 0.2479, 0.247),
        ({"use": "lora_bitfit_mtl", "biases": "all"}, 2_359_296 + 101_376, 0, 0.2497, 0.246),
        ("lora", 0, 294_912, 0.2694, 0.268),
        ("bitfit", 0, 102_912, 0.0940, 0.094),
    ],
)
def test_morris_and_its_baselines_on_bert_base(method, shared, own, percent, paper):
    """papers.md, section 3, nine tasks: true counts, and the percentages as the paper rounds them."""
    found = ledger(method, 9)
    assert found["shared"] == shared
    assert set(found["per_task"].values()) == {own}
    assert round(found["trained_percent_per_task"], 4) == percent
    assert round(found["paper"]["trained_percent_per_task"], 3) == paper
    assert found["paper"]["basis"] == 110_000_000
    names = [weft.Task(f"t{i}", size=2) for i in range(9)]
    asked = weft.Model("random:bert-base", names, method, device="meta").ledger(basis=110_000_000)["paper"]
    assert round(asked["trained_percent_per_task"], 3) == paper


def test_morris_in_all():
    found = ledger("morris", 9)
    assert found["shared"] + sum(found["per_task"].values()) == 2_707_488
    assert round(found["paper"]["total_ratio"], 4) == 1.0246
    every = ledger({"use": "morris", "biases": "all"}, 9)
    assert every["shared"] + sum(every["per_task"].values()) == 2_782_080
    assert round(every["paper"]["total_ratio"], 4) == 1.0243
    assert "A.3" in every["paper"]["why"]
    assert "A.3" not in found["paper"]["why"]
    assert ledger({"use": "morris", "biases": "all", "layers": "0-11"}, 9)["paper"] == every["paper"]
    assert "A.3" not in ledger({"use": "morris", "biases": "all", "layers": "0-10"}, 9)["paper"]["why"]


def test_gates_are_counted_though_the_paper_neglects_them():
    plain, gated = ledger("morris", 9), ledger({"use": "morris", "l0": True}, 9)
    assert gated["shared"] - plain["shared"] == 1_536 + 288


def test_a_basis_can_be_asked_for_any_encoder():
    names = [weft.Task(f"t{i}", size=2) for i in range(2)]
    found = weft.Model("random:minilm", names, "full", device="meta").ledger(basis=20_000_000)
    assert found["paper"]["basis"] == 20_000_000
    trained = found["trained_percent_per_task"] * found["encoder"]
    assert found["paper"]["trained_percent_per_task"] == pytest.approx(trained / 2e7)
    assert "as requested" in found["paper"]["why"]


@pytest.mark.parametrize(
    ("sites", "rank"),
    [("query, key, value", 20), ("query, key, value, attention_out", 15), ("query, value", 30)],
)
def test_a_set_of_multitask_lora(sites, rank):
    """papers.md, section 4: three ways to 1,105,920; what LoRA 1 to 4 hold, and the group it proposes."""
    lora = {"use": "lora", "sites": sites, "rank": rank}
    assert set(ledger(lora, 3)["per_task"].values()) == {1_105_920}  # LoRA 1 and 2
    assert ledger({**lora, "share": "all"}, 3)["shared"] == 1_105_920  # LoRA 3 and 4
    grouped = ledger({**lora, "share": {"pairs": ["t1", "t2"]}}, 3)
    assert grouped["shared"] == grouped["per_task"]["t0"] == 1_105_920
    assert grouped["per_task"]["t1"] == 0


def test_the_baselines_of_multitask_lora():
    assert ledger("frozen", 3)["total_ratio"] == 1.0  # baseline 1
    assert ledger("full", 3)["trained_percent_per_task"] == pytest.approx(100 / 3)  # baselines 2 and 3
    assert ledger("separate", 3)["total_ratio"] == 3.0  # baseline 4


GLUE9 = {"cola": 2, "mnli": 3, "rte": 2, "wnli": 2, "qqp": 2, "stsb": 1, "sst2": 2, "qnli": 2, "mrpc": 2}


def ca_mtl(encoder, **settings):
    tasks = [weft.Task(n, "classify" if s > 1 else "regress", size=s) for n, s in GLUE9.items()]
    return weft.Model(encoder, tasks, {"use": "ca_mtl", **settings}, device="meta", pool="pooler")


def test_ca_mtl_part_by_part():
    """papers.md, section 2: base, nine tasks, L = 128, so that N = 6 and b = 22."""
    without = {"attention": "none", "alignment": "none", "norm": "none", "bottleneck": "none"}
    one_task, transform = 768, 590_592

    def shared(**parts):
        found = ca_mtl("random:bert-base-cased", **{**without, **parts}).ledger()
        assert set(found["per_task"].values()) == {one_task if parts else 0}
        return found["shared"]

    assert shared() == 0
    assert shared(alignment="film") == 1_181_184
    assert shared(attention="block") == transform + 439_824
    assert shared(norm="code") == transform + 12 * 1_181_184
    assert shared(bottleneck="code") == transform + 2_166_016 + 1_182_720
    full_block = 12 * (128 * 128 + 2 * 128 * 769)
    assert shared(attention="full") == transform + full_block


@pytest.mark.parametrize(
    ("encoder", "settings", "added", "ratio"),
    [
        ("random:bert-base-cased", {}, 19_741_456, 1.182),
        ("random:bert-base", {}, 19_741_456, 1.180),
        ("random:bert-large-cased", {"size": "large"}, 146_739_960, 1.440),
        ("random:bert-large-cased", {"size": "large", "length": 256}, 149_445_624, 1.448),
    ],
)
def test_ca_mtl_as_a_whole(encoder, settings, added, ratio):
    found = ca_mtl(encoder, **settings).ledger()
    assert found["shared"] + sum(found["per_task"].values()) == added
    assert round(found["total_ratio"], 3) == ratio
    paper = found["paper"]
    assert (paper["total_ratio"], paper["trained_percent_per_task"]) == (1.12, 5.6)
    assert "neither follows" in paper["why"]
    for other in ({"norm": "none"}, {"variant": "paper"}, {"attention": "full"}, {"train_encoder": "all"}):
        assert ca_mtl(encoder, **settings, **other).ledger()["paper"] is None


def test_ca_mtl_as_printed_in_the_equations():
    """What the paper's own forms hold is not 1.12 either: γ and β of M have (L/N)² numbers each."""
    found = ca_mtl("random:bert-base-cased", variant="paper").ledger()
    d, b = 768, 22
    film = 2 * d * (d + 1)
    attention = 12 * (128 * b + 2 * b * b * (d + 1))
    bottleneck = (2 * 256 + 2 * d) * (d + 1) + d * 256 + 256 + 256 * d + d
    parts = d * d + film, d * (d + 1), attention, 12 * film, bottleneck, film + 2 * d
    assert found["shared"] == sum(parts)
    assert round(found["total_ratio"], 3) == 1.265


@pytest.mark.parametrize(
    ("encoder", "frozen", "settings", "theirs", "left_frozen"),
    [
        ("random:bert-base-cased", 5, {}, 69_791_814, 2 * 22 * 769),
        ("random:bert-base-cased", 6, {}, 62_670_106, 2 * 22 * 769),
        ("random:bert-large-cased", 12, {"size": "large"}, 298_569_098, 2 * 16 * 1025),
    ],
)
def test_what_of_ca_mtl_trains(encoder, frozen, settings, theirs, left_frozen):
    """With heads; the authors' code, by a slip in a name, leaves γ and β of M frozen in frozen layers."""
    model = ca_mtl(encoder, train_encoder=f"layers not 0-{frozen - 1}", **settings)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained - frozen * left_frozen == theirs

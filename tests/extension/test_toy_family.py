"""docs/extension.md, "An encoder family": a model of transformers whose modules have other names."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel, BertConfig, BertModel
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

import weft
from tests.extension.recipes import blocks
from tests.support.tiny import _SIZES, batch, scramble
from tests.support.tiny_run import rows_of, save_encoder
from weft.encoder.anatomy import longest_row, sites_of
from weft.errors import WeftError


class ToyConfig(BertConfig):
    model_type = "toy-bert"


class Mix(nn.Module):
    """Attention by plain products."""

    def __init__(self, config):
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.drop(self.o(mixed.transpose(1, 2).flatten(2)))


class Floor(nn.Module):
    """One block."""

    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.mix = Mix(config)
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x, mask):
        x = self.norm_a(x + self.mix(x, mask))
        return self.norm_b(x + self.drop(self.down(nn.functional.gelu(self.up(x)))))


class Tower(nn.Module):
    """The blocks, called as BERT calls its encoder."""

    def __init__(self, config):
        super().__init__()
        self.floors = nn.ModuleList([Floor(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states, attention_mask=None, **_):
        for floor in self.floors:
            hidden_states = floor(hidden_states, attention_mask)
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=hidden_states)


class ToyModel(BertModel):
    config_class = ToyConfig

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config, add_pooling_layer=False)
        self.encoder = Tower(config)
        self.post_init()


def toy() -> ToyModel:
    torch.manual_seed(5)
    return ToyModel(ToyConfig(**_SIZES)).eval()


@pytest.fixture
def family(registrations):
    exec(blocks("An encoder family")[1], {})


def test_before_it_is_registered_it_is_refused_with_what_to_do():
    with pytest.raises(WeftError, match=r"'toy-bert'.*has no anatomy[^$]*docs/extension\.md"):
        weft.Model(toy(), [weft.Task("a", size=2)])


def test_a_family_built_like_a_known_one_is_one_line(registrations):
    exec(blocks("An encoder family")[0], {})
    encoder = AutoModel.from_config(AutoConfig.for_model("splinter", **_SIZES))
    assert longest_row(encoder) == 64
    assert weft.Model(encoder, [weft.Task("a", size=2)], "lora").longest == 64


@pytest.mark.usefixtures("family")
def test_its_sites_are_those_of_the_table():
    encoder = toy()
    sites = sites_of(encoder)
    assert {site.path for site in sites if site.layer == 1 and site.kind == "query"} == {
        "encoder.floors.1.mix.q"
    }
    assert longest_row(encoder) == 64
    with pytest.raises(WeftError, match="'scores' does not exist"):
        sites.select(["scores"])


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize("method", ["lora", "bitfit", "houlsby", "pals", "lhuc"])
def test_methods_act_in_it_and_mixed_batches_equal_single_ones(method):
    tasks = [weft.Task("a", size=2), weft.Task("b", size=3)]
    model = weft.Model(toy(), tasks, method).eval()
    rows = batch(model)
    real = rows["attention_mask"].bool()
    with torch.no_grad():
        bare = toy()(**{k: v for k, v in rows.items() if k != "task"}).last_hidden_state
        if model.method.starts_at_base:
            assert torch.equal(model(**rows).hidden[real], bare[real])
        mixed = scramble(model)(**rows).hidden
        assert not torch.allclose(mixed[real], bare[real], atol=1e-3)
        for row in range(len(real)):
            one = model(**{name: value[row : row + 1] for name, value in rows.items()}).hidden[0]
            torch.testing.assert_close(one[real[row]], mixed[row][real[row]], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("family")
def test_it_trains_and_is_saved_and_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    AutoConfig.register("toy-bert", ToyConfig, exist_ok=True)
    AutoModel.register(ToyConfig, ToyModel, exist_ok=True)
    folder = save_encoder(tmp_path / "encoder")  # its tokenizer
    toy().save_pretrained(folder)
    rows = {split: rows_of("cat", 16, seed) for seed, split in enumerate(("train", "validation"))}
    tasks = [weft.Task("cat", labels=("no", "yes"), files=rows)]
    model = weft.Model(folder, tasks, "lora", max_length=24)
    done = weft.train(model, weft.Training(steps=4, batch_size=4, max_length=24), out=tmp_path / "run")
    assert set(done.metrics["tasks"]) == {"cat"}
    loaded = weft.load(tmp_path / "run")
    assert type(loaded.encoder) is ToyModel
    text = [("cat", "the old cat")]
    assert loaded.predict(text) == weft.load(tmp_path / "run" / "bundle").predict(text)

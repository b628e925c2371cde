"""Run three tasks through one encoder in one forward pass, before anything is trained."""

import torch

import weft

tasks = [
    weft.Task("acceptability", labels=("no", "yes")),
    weft.Task("entailment", labels=("entailment", "neutral", "contradiction")),
    weft.Task("similarity", "regress"),
]
model = weft.Model("minilm", tasks, method=["lora", "bitfit"]).eval()

texts = [("acceptability", "Cats sleeps."), ("similarity", "It rains."), ("entailment", "It is wet.")]
batch = model.tokenizer([text for _, text in texts], padding=True, return_tensors="pt")
task = torch.tensor([model.task_id(name) for name, _ in texts])
with torch.no_grad():
    output = model.run(**batch, task=task)

for (name, text), logits in zip(texts, output.logits, strict=True):
    print(f"{name:14} {text:14} {[round(x, 3) for x in logits.tolist()]}")

ledger = model.ledger()
added = ledger["per_task"]["similarity"]
print(f"\nthe encoder has {ledger['encoder']:,} parameters; each task adds {added:,}")
print(f"all three tasks need {ledger['total_ratio']:.3f} times the encoder, not {len(tasks)}.000 times")

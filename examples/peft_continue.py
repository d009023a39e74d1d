"""PEFT: tune the low-rank adapters of a language model; a promoted configuration continues its training.

    python examples/peft_continue.py

The base model stands for a pretrained one and is the same for all trials; it is built from a configuration, so that
nothing is downloaded. The checkpoint of the Trainer has only the adapters, the optimiser, the schedule and the random
generators.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import bohb
from bohb.integrations import learners

SPACE = {"lr": (1e-4, 1e-1, "log"), "rank": (1, 4, "log"), "alpha": (1, 32, "log"), "dropout": (0.0, 0.3)}
MAX_EPOCHS = 9
BASE = BertConfig(vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
data = torch.Generator().manual_seed(0)
TOKENS = torch.randint(1, 16, (96, 6), generator=data)
ROWS = [{"input_ids": row, "labels": int(row[0] > row[1])} for row in TOKENS]  # 64 to train on, the rest to validate


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    base = BertForSequenceClassification(BASE)  # yours: from_pretrained(…)
    torch.manual_seed(trial.seed)
    adapters = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=trial.config["rank"],
        lora_alpha=trial.config["alpha"],
        lora_dropout=trial.config["dropout"],
        target_modules=["query", "value"],
    )
    arguments = TrainingArguments(
        output_dir=str(trial.checkpoint_dir),
        num_train_epochs=MAX_EPOCHS,  # not the budget: the schedule of the learning rate must not depend on it
        learning_rate=trial.config["lr"],
        per_device_train_batch_size=16,
        seed=trial.seed,
        eval_strategy="epoch",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    model = get_peft_model(base, adapters)
    trainer = Trainer(model, arguments, train_dataset=ROWS[:64], eval_dataset=ROWS[64:])
    return learners.train_huggingface(trial, trainer)


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=MAX_EPOCHS, max_brackets=1, seed=0))

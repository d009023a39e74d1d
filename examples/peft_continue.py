"""PEFT: tune the low-rank adapters of a language model; a promoted configuration continues its training.

    python examples/peft_continue.py [seed]

The base model stands for a pretrained one and is the same for all trials; it is built from a configuration, so that
nothing is downloaded. The checkpoint of the Trainer has only the adapters, the optimiser, the schedule and the random
generators; `main` trains again without it and compares losses bit by bit.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import bohb
from bohb.integrations import huggingface

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
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
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
        return huggingface.train(trainer, trial)


def main(seed: int = 0) -> None:
    study = bohb.minimize(
        train, SPACE, min_budget=1, max_budget=MAX_EPOCHS, max_brackets=1, integer_budgets=True, seed=seed
    )
    print(study)
    continued = [(trial, outcome.loss) for trial, outcome in study.trials if outcome and outcome.info.get("continued")]
    same = sum(train(replace(trial, previous_budget=None))["loss"] == loss for trial, loss in continued)
    print(f"{same} of {len(continued)} continued trainings equal those trained through")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

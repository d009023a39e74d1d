# One environment per rival, from exact pins; included by the Makefile. requirements/hpbandster.txt is the Makefile's own.
RIVALS := optuna hyperopt smac dehb synetune neps

.PHONY: rivals $(RIVALS:%=%-env)
rivals: hpbandster-env $(RIVALS:%=%-env) ## the environments of all rivals
$(RIVALS:%=%-env): %-env: .venvs/%/.done
$(RIVALS:%=.venvs/%/.done): .venvs/%/.done: requirements/rivals/%.txt
	$(PYTHON) -m venv --clear .venvs/$*
	.venvs/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

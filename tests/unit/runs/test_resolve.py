"""The layers of a configuration, and mistakes in it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from josrc.config import RunConfig
from josrc.data.registry import DATASETS
from josrc.engine.run_folder import RunFolder
from josrc.errors import UserError
from josrc.methods import get_method, method_names
from josrc.methods.josrc import JoSRCSettings
from josrc.runs.resolve import (
    load_run_config,
    merge,
    nested,
    parse_override,
    parse_yaml,
    recipe_names,
    recipe_text,
)
from josrc.runs.start import configure


def config(*pairs: str, data: str = "digits-o", yaml: str = "", **options: Any) -> RunConfig:
    """The configuration the command line makes of a YAML file, key=value pairs and options."""
    layers = [parse_yaml(yaml, "F.yaml"), *(parse_override(pair) for pair in pairs)]
    return configure(data, layers=layers, **options)


def josrc_settings(run: RunConfig) -> JoSRCSettings:
    assert isinstance(run.method, JoSRCSettings)
    return run.method


def test_later_sources_win() -> None:
    yaml = "batch_size: 32\nseed: 3"
    assert RunConfig.model_fields["epochs"].default == 200
    assert config().epochs == 40  # the recipe over the default
    assert config().batch_size == 128
    assert config(yaml=yaml).batch_size == 32  # the file over the recipe
    assert config("batch_size=16", yaml=yaml).batch_size == 16  # a pair over the file
    assert config(yaml=yaml, batch_size=8).batch_size == 8  # an option over the file
    assert config("batch_size=16", "batch_size=24").batch_size == 24  # the last pair
    assert config("batch_size=16", yaml=yaml, batch_size=8).seed == 3  # what none of them touches


def test_a_section_keeps_what_a_later_source_does_not_mention() -> None:
    run = config("optimizer.lr=0.1", yaml="optimizer: {weight_decay: 0.01}")
    expected = {"lr": 0.1, "weight_decay": 0.01, "name": "adam", "momentum_after": 0.1}
    assert run.optimizer.model_dump().items() >= expected.items()


def test_an_option_that_is_not_given_changes_nothing() -> None:
    assert config(yaml="seed: 3", seed=None, epochs=None) == config(yaml="seed: 3")


def test_merging_leaves_both_sides_as_they_were() -> None:
    base, over = {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}
    assert merge(base, over) == {"a": {"b": 3, "c": 2}, "d": 4}
    assert (base, over) == ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4})


def test_the_method_is_josrc_unless_another_is_named() -> None:
    assert config().method.name == "josrc"
    assert config(method="standard").method.name == "standard"
    assert config("method.name=standard").method.name == "standard"
    assert config(yaml="method: {name: standard}").method.name == "standard"


def test_the_right_side_of_a_pair_is_read_as_yaml() -> None:
    assert parse_override("method.alpha=0.3") == {"method": {"alpha": 0.3}}
    assert parse_override("views.flip=false") == nested("views.flip", False)
    assert parse_override("a=null") == {"a": None}
    assert parse_override("a=b=c") == {"a": "b=c"}
    assert config("optimizer.lr=1e-4").optimizer.lr == 1e-4  # YAML 1.1 takes this for a word


@pytest.mark.parametrize(
    ("pair", "key", "meant"),
    [
        ("epoch=3", "epoch", "epochs"),
        ("optmizer.lr=1", "optmizer", "optimizer"),
        ("methods.josrc.warm_up=1", "methods", "method"),
        ("optimizer.decay_strat=1", "optimizer.decay_strat", "optimizer.decay_start"),
        ("method.alhpa=1", "method.alhpa", "method.alpha"),
        ("data.noise_sed=1", "data.noise_sed", "data.noise_seed"),
        ("lr=0.1", "lr", "optimizer.lr"),
        ("alpha=0.3", "alpha", "method.alpha"),
    ],
)
def test_an_unknown_key_is_answered_with_the_closest(pair: str, key: str, meant: str) -> None:
    with pytest.raises(UserError, match=rf"^Unknown key '{key}'\. Did you mean '{meant}'\?$"):
        config(pair)


def test_a_key_unlike_all_others_is_answered_with_those_of_its_section() -> None:
    known = r"'views\.zzz'\. Known: views\.pad, views\.flip, views\.normalise, .*stored\.$"
    with pytest.raises(UserError, match=known):
        config("views.zzz=1")


def test_a_key_of_another_method_is_unknown() -> None:
    with pytest.raises(UserError, match=r"Unknown key 'method\.alpha'"):
        config("method.alpha=0.3", method="standard")


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("epochs=0", r"epochs=0: .*greater than or equal to 1"),
        ("epochs=many", r"epochs='many': .*valid integer"),
        ("epochs=2.5", r"epochs=2\.5: .*integer"),
        ("epochs=", r"epochs=None: .*integer"),
        ("batch_size=1", r"batch_size=1: .*greater than or equal to 2"),
        ("data.rate=1.5", r"data\.rate=1\.5: .*less than or equal to 1"),
        (
            "data.noise=symetric",
            r"data\.noise='symetric' is not valid\. Did you mean 'symmetric'",
        ),
        ("optimizer.lr=0", r"optimizer\.lr=0: .*greater than 0"),
        ("optimizer.lr=.nan", r"optimizer\.lr=nan"),
        ("method.smoothing=1", r"method\.smoothing=1: .*less than 1"),
        ("method.variant=all", r"method\.variant='all' is not valid\. Did you mean 'full'"),
        ("method.warm_up=-1", r"method\.warm_up=-1: .*greater than or equal to 0"),
        ("views=small", r"views='small'"),
        ("model.name='hf-hub:'", r"model\.name='hf-hub:'"),
        ("model.name='hf-hub:../../x'", r"model\.name='hf-hub:\.\./\.\./x'"),
        ("model.name='hf-hub:a/b@c@d'", r"model\.name='hf-hub:a/b@c@d'"),
        ("model.name=local-dir:/tmp", r"model\.name='local-dir:/tmp'"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_key_and_value(pair: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        config(pair)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(UserError) as caught:
        config("epochs=0", "batch_size=0", "sede=3")
    assert [line.split("=")[0] for line in str(caught.value).splitlines()] == [
        "epochs",
        "batch_size",
        "Unknown key 'sede'. Did you mean 'seed'?",
    ]


@pytest.mark.parametrize("pair", ["alpha", "=3", " =3", ""])
def test_what_is_no_pair_is_answered_with_an_example(pair: str) -> None:
    with pytest.raises(UserError, match=r"key=value .*method\.alpha=0\.3"):
        config(pair)


def test_a_section_given_a_name_is_explained() -> None:
    with pytest.raises(UserError, match=r"'method' is a section: write method\.name=standard"):
        config("method=standard")


@pytest.mark.parametrize("pair", ["model=resnet18", "optimizer=sgd"])
def test_any_section_given_a_name_is_explained(pair: str) -> None:
    key, _, name = pair.partition("=")
    with pytest.raises(UserError, match=rf"'{key}' is a section: write {key}\.name={name}"):
        config(pair)


@pytest.mark.parametrize("pair", ["method.name=3", "method.name=[josrc]"])
def test_a_method_name_that_is_no_word_is_a_mistake_with_a_message(pair: str) -> None:
    with pytest.raises(UserError, match="method"):
        config(pair)


def test_a_kind_that_is_not_that_of_the_name_is_told_by_itself() -> None:
    with pytest.raises(UserError, match=r"data\.kind=hub .* digits-o is of the kind builtin"):
        config("data.kind=hub")
    assert config("data.kind=builtin") == config()


@pytest.mark.parametrize("pair", ["data.name=cifar100n-c", "data=cifar100n-c"])
def test_data_named_twice_is_not_ignored(pair: str) -> None:
    with pytest.raises(UserError, match="cifar100n-c"):
        config(pair)


def test_a_recipe_chosen_as_a_key_is_not_only_a_label() -> None:
    with pytest.raises(UserError, match="recipe"):
        config("recipe=nonsense")


def test_an_unknown_method_data_set_option_or_recipe_is_told() -> None:
    with pytest.raises(UserError, match=r"Unknown method 'josrcc'.*'josrc'"):
        config(method="josrcc")
    with pytest.raises(UserError, match=r"data set 'digits'\. Did you mean 'digits-o'\?"):
        config(data="digits")
    with pytest.raises(UserError, match=r"no file, folder or data set 'flowers'\. Known: digits-o"):
        config(data="flowers")
    with pytest.raises(UserError, match=r"Unknown option 'epoch'\. Did you mean 'epochs'\?"):
        config(epoch=3)
    with pytest.raises(UserError, match=r"digits-o has no recipe 'fancy'\. It has: augmented"):
        configure("digits-o", recipe="fancy")
    with pytest.raises(UserError, match=r"no recipe 'digitso'\. Did you mean 'digits-o'"):
        recipe_text("digitso")


def test_broken_yaml_is_an_error_that_names_its_file() -> None:
    with pytest.raises(UserError, match=r"^F\.yaml is not valid YAML: (.|\n)*line 1"):
        config(yaml="epochs: [3")
    with pytest.raises(UserError, match=r"^F\.yaml must contain keys and values, not a list"):
        config(yaml="- epochs")
    with pytest.raises(UserError, match=r"^F\.yaml must contain keys and values, not a str"):
        config(yaml="epochs")
    assert config(yaml="# nothing yet") == config()


def test_yaml_never_creates_objects() -> None:
    with pytest.raises(UserError, match="not valid YAML"):
        config(yaml="seed: !!python/object/apply:os.getpid []")


@pytest.mark.parametrize(
    ("epochs", "warm_up", "decay_start"),
    [(200, 10, 80), (400, 20, 160), (100, 5, 40), (3, 1, 1), (2, 1, 1), (1, 1, 1)],
)
def test_phases_scale_with_the_run(epochs: int, warm_up: int, decay_start: int) -> None:
    run = config(data="cifar80n-o", epochs=epochs)
    assert josrc_settings(run).warm_up == warm_up
    assert run.optimizer.decay_start == decay_start


@pytest.mark.parametrize(("epochs", "warm_up", "decay_start"), [(40, 4, 16), (20, 2, 8), (3, 1, 1)])
def test_phases_of_a_recipe_are_relative_to_its_own_epochs(
    epochs: int, warm_up: int, decay_start: int
) -> None:
    run = config(epochs=epochs)
    assert josrc_settings(run).warm_up == warm_up
    assert run.optimizer.decay_start == decay_start


def test_phases_the_user_sets_are_kept_as_they_are() -> None:
    run = config("method.warm_up=7", yaml="optimizer: {decay_start: 30}", epochs=3)
    assert josrc_settings(run).warm_up == 7
    assert run.optimizer.decay_start == 30
    assert josrc_settings(config("method.warm_up=0", epochs=3)).warm_up == 0


def test_the_part_of_a_recipe_for_one_method_leaves_others_alone() -> None:
    assert config(method="standard").method.model_dump() == {"name": "standard"}


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("data", DATASETS)
def test_every_data_set_has_a_configuration_for_every_method(data: str, method: str) -> None:
    run = config(data=data, method=method)
    assert (run.data.name, run.method.name) == (data, method)


@pytest.mark.parametrize(
    ("method", "decay_start"),
    [("standard", 100), ("coteaching", 100), ("jocor", 100), ("coteaching-plus", 80)],
)
@pytest.mark.parametrize("data", ["cifar100n-c", "cifar80n-o"])
def test_the_plain_recipe_is_that_of_the_published_codes(
    data: str, method: str, decay_start: int
) -> None:
    run = configure(data, recipe="plain", method=method)
    assert run.recipe == "plain"
    assert (run.views.pad, run.views.flip, run.views.normalise) == (0, False, False)
    assert (run.views.crop, run.views.strong) == ("shift", "none")
    assert (run.model.head, run.epochs, run.batch_size) == ("linear", 200, 128)
    assert run.optimizer.decay_start == decay_start
    assert run.optimizer.at(decay_start - 1, 200) == (1e-3, 0.9)
    assert run.optimizer.at(190, 200) == (pytest.approx(1e-2 / (200 - decay_start)), 0.1)
    assert getattr(run.method, "double_softmax", False) == (method == "coteaching-plus")


@pytest.mark.parametrize("recipe", recipe_names())
def test_a_recipe_begins_with_the_command_that_runs_it(recipe: str) -> None:
    comment, program, command, data, *options = shlex.split(
        recipe_text(recipe).splitlines()[0], comments=False
    )
    assert [comment, program, command] == ["#", "josrc", "train"]
    assert data in DATASETS
    names = [name.removeprefix("--").replace("-", "_") for name in options[::2]]
    chosen = dict(zip(names, options[1::2], strict=True))
    suffix = chosen.pop("recipe", None)
    assert recipe == (f"{data}.{suffix}" if suffix else data)
    run = configure(data, recipe=suffix, **chosen)
    assert run.data.noise == chosen.get("noise", "none")


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        ["method.ood_divergence_cap=null", "optimizer.momentum_after=null", "epochs=3"],
        ["data.root=/some where", "model.weights=w.pt", "method.warm_up=7", "model.image_size=64"],
        ["method.name=standard", "optimizer.lr=1e-5", "seed=2147483647"],
    ],
    ids=str,
)
def test_a_resolved_configuration_survives_its_file(pairs: list[str], tmp_path: Path) -> None:
    run = config(*pairs)
    (tmp_path / "config.yaml").write_text(run.to_yaml(), encoding="utf-8")
    assert load_run_config(RunFolder(tmp_path)) == run


def test_what_is_no_run_configuration_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(UserError, match=r"config\.yaml does not exist: .* is not a josrc run"):
        load_run_config(RunFolder(tmp_path))
    for text in ("epochs: 3", "method: josrc", "method: {}"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"config\.yaml has no method"):
            load_run_config(RunFolder(tmp_path))


def test_the_learning_rate_of_the_published_code() -> None:
    optimizer = config(data="cifar80n-o").optimizer
    for epoch in range(200):
        decayed = epoch >= 80
        rate = (200 - epoch) / 120 * 1e-3 if decayed else 1e-3
        assert optimizer.at(epoch, 200) == pytest.approx((rate, 0.1 if decayed else 0.9))


@pytest.mark.parametrize("data", ["cifar100n-c", "cifar80n-o"])
@pytest.mark.parametrize("method", ["joint-optim", "pencil"])
@pytest.mark.parametrize(("recipe", "epochs"), [(None, 200), ("preact", 300)])
def test_learned_labels_are_first_trained_on_at_the_full_rate(
    data: str, method: str, recipe: str | None, epochs: int
) -> None:
    # Both codes: labels stand from epoch 200 of 320, and the rate falls a third later.
    run = configure(data, recipe=recipe, method=method)
    settings = run.method.model_dump()
    stand = settings.get("first_step") or settings["warm_up"] + settings["correction"]
    assert stand == pytest.approx(200 / 320 * epochs, abs=1)
    rates = [run.optimizer.at(epoch, epochs)[0] for epoch in range(epochs)]
    assert len(set(rates[: epochs * 200 // 320])) == 1, "one rate until labels stand"
    assert rates[round(epochs * (240 + 80 / 3) / 320)] < rates[epochs * 239 // 320]


@pytest.mark.parametrize("method", method_names())
def test_every_method_has_settings_for_the_larger_network(method: str) -> None:
    run = config(data="cifar80n-o", method=method, recipe="preact", epochs=30)
    assert run.model.name == "preactresnet18"
    if not get_method(method).defaults:  # which bring a schedule of their own
        assert run.optimizer.decay_start in (10, 15, 16, 22)
    assert run.epochs == 30

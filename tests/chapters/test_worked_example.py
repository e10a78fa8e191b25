"""Reading worked examples: a good file in full, every fault by file, key and reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from app.chapters import addresses
from app.chapters.worked_example import WorkedExampleError, available, calculate, load
from app.paper.errors import PaperError, ShapeError
from app.paths import WORKED_EXAMPLES

GOOD = """
format = 1
title = "Two positions, three heads"
X = [[1, 0, 2], [0, 1, -1]]
[[heads]]
W_Q = [[1], [0], [0]]
W_K = [[0], [1], [0]]
W_V = [[1, 0], [0, 1], [0, 0]]
[[heads]]
W_Q = [[0], [1], [0]]
W_K = [[0], [1], [1]]
W_V = [[1, 0], [0, 1], [0, 1]]
[[output_projections]]
name = "first"
title = "The first three"
W_O = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
[[edits]]
name = "edited"
title = "Edited"
rows = { 2 = [0.5, 1, 0] }
[[expected]]
mask = "all"
[expected.values]
"head1.V.2" = [0, 1]
"X" = [[1, 0, 2], [0, 1, -1]]
"""


def written(folder: Path, text: str, name: str = "made_up") -> Path:
    place = folder / name
    place.mkdir()
    (place / "example.toml").write_text(text, encoding="utf-8")
    return place


def refusal(folder: Path, text: str) -> WorkedExampleError:
    with pytest.raises(WorkedExampleError) as caught:
        load(written(folder, text))
    assert caught.value.file == "made_up/example.toml"
    return caught.value


def test_any_sizes(tmp_path: Path) -> None:
    example = load(written(tmp_path, GOOD))
    assert (example.n, example.d_model, example.h, example.d_k, example.d_v) == (2, 3, 2, 1, 2)
    assert example.slug == "made_up"
    assert (example.summary, example.section, example.epsilon) == ("", "", 1e-6)
    np.testing.assert_array_equal(example.gamma, [1, 1, 1])
    np.testing.assert_array_equal(example.beta, [0, 0, 0])
    np.testing.assert_array_equal(example.edit("edited").X, [[1, 0, 2], [0.5, 1, 0]])
    assert example.edit("edited").positions == (2,)
    calculation = calculate(example)
    assert calculation.concat.shape == (2, 4)
    assert calculation.layer_norm.shape == (2, 3)


def test_the_arrays_are_read_only(tmp_path: Path) -> None:
    example = load(written(tmp_path, GOOD))
    choice = example.output_projection()
    for array in (example.X, example.W_Q, example.gamma, example.edits[0].X, choice.W_O):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_documented_format_is_the_format(tmp_path: Path) -> None:
    """The example inside worked_examples/README.md is loaded as it stands."""
    readme = (WORKED_EXAMPLES / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    example = load(written(tmp_path, block[1]))
    assert example.title == "Two positions, one head"


def test_the_documented_refusal_is_the_refusal(tmp_path: Path) -> None:
    readme = (WORKED_EXAMPLES / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    faulty = block[1].replace("W_Q = [[1, 0], [0, 1]]", "W_Q = [[1, 0], [0, 1, 0]]")
    with pytest.raises(WorkedExampleError) as caught:
        load(written(tmp_path, faulty, "two_positions"))
    assert f"\n{caught.value}\n" in readme


def test_a_faulty_folder_does_not_take_the_others_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, GOOD, "good")
    written(tmp_path, GOOD.replace("format = 1", "format = 2"), "faulty")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "README.md").write_text("not a folder", encoding="utf-8")
    library = available(tmp_path)
    assert list(library.examples) == ["good"]
    assert [str(error) for error in library.refused] == [
        "empty/example.toml: cannot be read (No such file or directory)",
        "faulty/example.toml: format: expected 1, found 2",
    ]
    assert [record.getMessage() for record in caplog.records] == [
        f"worked example refused: {error}" for error in library.refused
    ]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    library = available(tmp_path / "nowhere")
    assert library.examples == {}
    assert str(library.refused[0]) == "nowhere: expected a folder of worked examples"


def test_the_committed_examples_are_all_good() -> None:
    library = available()
    assert library.refused == ()
    assert "three_positions" in library.examples


W_O = "W_O = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]"
V_2 = '"head1.V.2" = [0, 1]'
VALUES = "expected.1.values"
FAULTS = [
    ("format = 1", "", "format", "is missing"),
    ("format = 1", "format = true", "format", "expected 1"),
    ("format = 1", "format = 1\ncolour = 3", "colour", "is not known here"),
    ('title = "Two positions, three heads"', "title = 3", "title", "expected some text"),
    ('title = "Two positions, three heads"', 'title = " "', "title", "expected some text"),
    ("X = [[1, 0, 2], [0, 1, -1]]\n", "X = 3\n", "X", "expected rows of numbers"),
    ("X = [[1, 0, 2], [0, 1, -1]]\n", "X = [[1, 0, 2], [0, 1]]\n", "X.2", "expected 3 numbers"),
    ("X = [[1, 0, 2]", "X = [[1, 0, true]", "X.1.3", "expected a number, found True"),
    ("X = [[1, 0, 2]", 'X = [[1, 0, "2"]', "X.1.3", "expected a number, found '2'"),
    ("X = [[1, 0, 2]", "X = [[1, 0, nan]", "X.1.3", "from −1,000,000 to 1,000,000, found nan"),
    ("X = [[1, 0, 2]", "X = [[1, 0, inf]", "X.1.3", "from −1,000,000 to 1,000,000"),
    ("X = [[1, 0, 2]", "X = [[1, 0, 1000001]", "X.1.3", "from −1,000,000 to 1,000,000"),
    ("W_Q = [[1], [0], [0]]", "W_Q = [[1], [0]]", "heads.1.W_Q", "expected 3 rows, found 2"),
    ("W_K = [[0], [1], [1]]", "W_K = [[0, 1], [1, 0], [1, 1]]", "heads.2.W_K.1", "expected 1"),
    ("W_V = [[1, 0], [0, 1], [0, 1]]", "", "heads.2.W_V", "is missing"),
    (W_O, "W_O = [[1]]", "output_projections.1.W_O", "expected 4 rows, found 1"),
    ('name = "first"', 'name = "First one"', "output_projections.1.name", "lower-case"),
    ("rows = { 2 =", "rows = { 3 =", "edits.1.rows.3", "expected a position from 1 to 2"),
    ("rows = { 2 = [0.5, 1, 0] }", "rows = {}", "edits.1.rows", "expected a table"),
    ("rows = { 2 = [0.5, 1, 0] }", "rows = { 2 = [] }", "edits.1.rows.2", "expected a row"),
    ('mask = "all"', 'mask = "past"', "expected.1.mask", "expected causal, all; found 'past'"),
    ('mask = "all"', 'edit = "x"', "expected.1.edit", "expected edited; found 'x'"),
    ('mask = "all"', 'W_O = "x"', "expected.1.W_O", "expected first; found 'x'"),
    ('mask = "all"', "scaled = 1", "expected.1.scaled", "expected true or false"),
    (V_2, '"head3.V.2" = [0, 1]', f"{VALUES}.head3.V.2", "expected a head from 1 to 2"),
    (V_2, '"head1.V.2" = [0, 2]', f"{VALUES}.head1.V.2", "the calculation gives [0.0, 1.0]"),
    (V_2, '"head1.V.2" = 1', f"{VALUES}.head1.V.2", "expected a row"),
    (V_2, '"mean.1" = [1]', f"{VALUES}.mean.1", "expected a number"),
    (V_2, '"X.1" = 1\n', f"{VALUES}.X.1", "expected a row"),
    (V_2, '"head1.Q" = [[1, 0]]', f"{VALUES}.head1.Q", "expected 2 rows of 1 numbers"),
    ("[expected.values]", "values = 3\n[expected.other]", "expected.1.other", "is not known here"),
]


@pytest.mark.parametrize(("old", "new", "key", "reason"), FAULTS)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, key: str, reason: str) -> None:
    assert old in GOOD
    error = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert error.key == key
    assert reason in error.reason
    assert str(error) == f"made_up/example.toml: {key}: {error.reason}"


@pytest.mark.parametrize(
    ("line", "key", "reason"),
    [
        ("epsilon = 0", "epsilon", "expected a number from 1e-12 to 1"),
        ("epsilon = -1", "epsilon", "expected a number from 1e-12 to 1"),
        ("epsilon = 1e-13", "epsilon", "expected a number from 1e-12 to 1"),
        ("epsilon = 2", "epsilon", "expected a number from 1e-12 to 1"),
        ("gamma = [1, 1]", "gamma", "expected 3 numbers, found 2"),
        ("beta = [0, 0, 0, 0]", "beta", "expected 3 numbers, found 4"),
    ],
)
def test_a_fault_of_layer_norm_is_named(tmp_path: Path, line: str, key: str, reason: str) -> None:
    error = refusal(tmp_path, GOOD.replace("format = 1", f"format = 1\n{line}"))
    assert (error.key, reason in error.reason) == (key, True)


def test_names_are_used_once(tmp_path: Path) -> None:
    again = '[[edits]]\nname = "edited"\ntitle = "Again"\nrows = { 1 = [1, 1, 1] }\n[[expected]]'
    error = refusal(tmp_path, GOOD.replace("[[expected]]", again))
    assert (error.key, error.reason) == ("edits.2.name", "'edited' is used twice")


def test_lists_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    whole = 'format = 1\ntitle = "T"\nX = [[1]]\nheads = {}\noutput_projections = [1]\n'
    assert "[[heads]]" in refusal(tmp_path, whole.format("3")).reason
    with pytest.raises(WorkedExampleError, match=r"heads\.1: expected a table, found 3"):
        load(written(tmp_path, whole.format("[3]"), "another"))


def test_sizes_have_a_limit(tmp_path: Path) -> None:
    head = "[[heads]]\nW_Q = [[1]]\nW_K = [[1]]\nW_V = [[1]]\n"
    projection = '[[output_projections]]\nname = "a"\ntitle = "A"\nW_O = [[1]]\n'
    start = 'format = 1\ntitle = "T"\n'
    rows = ", ".join(["[1]"] * 13)
    error = refusal(tmp_path, f"{start}X = [{rows}]\n{head}{projection}")
    assert (error.key, error.reason) == ("X", "expected n of at most 12, found 13")
    many = f"{start}X = [[1]]\n{head * 9}{projection}"
    with pytest.raises(WorkedExampleError, match="heads: expected h of at most 8, found 9"):
        load(written(tmp_path, many, "many"))


BROKEN = [
    b"format = ",
    "\ud800".encode("utf-16-le", "surrogatepass"),
    b"format = " + b"1" * 5000,
    b"a = " + b"[" * 5000,
]


@pytest.mark.parametrize("content", BROKEN, ids=["cut", "utf-16", "digits", "nested"])
def test_what_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "broken"
    place.mkdir()
    (place / "example.toml").write_bytes(content)
    with pytest.raises(WorkedExampleError, match="is not valid TOML") as caught:
        load(place)
    assert caught.value.key == ""


def test_a_slug_is_fit_for_a_url(tmp_path: Path) -> None:
    with pytest.raises(WorkedExampleError, match="folder name of lower-case letters"):
        load(written(tmp_path, GOOD, "Made up"))


# ── The calculation ──────────────────────────────────────────────────────────────────────────────


def test_a_reader_may_choose_everything(tmp_path: Path) -> None:
    example = load(written(tmp_path, GOOD))
    X = [[-0.0, 1, 2], [3, 4, 5]]
    mask = np.array([[False, False], [True, True]])
    calculation = calculate(example, X, mask, False, "first", [1, 2, 3], [0, 0, 1], 0.5)
    assert calculation.mask == "custom"
    assert not np.signbit(calculation.X[0, 0]), "−0 is 0"
    assert calculation.heads[0].nothing_allowed.tolist() == [True, False]
    assert np.isfinite(calculation.layer_norm).all()
    assert (calculation.epsilon, calculation.scaled) == (0.5, False)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    example = load(written(tmp_path, GOOD))
    with pytest.raises(ShapeError, match="X: expected the shape"):
        calculate(example, [[1, 2, 3]])
    with pytest.raises(PaperError, match='mask: expected "causal", "all" or booleans'):
        calculate(example, mask="past")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="mask: expected the shape"):
        calculate(example, mask=np.ones((3, 3), bool))
    with pytest.raises(KeyError):
        calculate(example, W_O="nowhere")
    with pytest.raises(ShapeError, match="gamma"):
        calculate(example, gamma=[1, 2])


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────


def test_every_number_has_one_address(tmp_path: Path) -> None:
    calculation = calculate(load(written(tmp_path, GOOD)))
    found = [str(address) for address in addresses.everything(calculation)]
    assert len(found) == len(set(found))
    for text in found:
        parsed = addresses.parse(text, calculation)
        assert str(parsed) == text
        assert addresses.numbers(calculation, parsed).ndim == 0
    assert {"X.2.3", "head2.weights.1.2", "head1.row_max.2", "epsilon", "W_O.4.3"} <= set(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "such as head1.weights.3.2"),
        ("head1.weights.0.1", "counted from 1"),
        ("head1.weights.3.2.1", "such as"),
        ("weights.1.1", "expected one of X, W_O"),
        ("head1.mean.1", "in a head"),
        ("head3.weights.1.1", "a head from 1 to 2"),
        ("head1.weights.3.1", "within weights, which is 2 by 2"),
        ("mean.1.1", "within mean, which is 2"),
        ("epsilon.1", "a single number"),
        ("head1.__class__.1", "in a head"),
        ("heads", "expected one of"),
        ("mean.٣", "such as"),
        ("mean.1\n", "such as"),
        ("X." + "9" * 5000, "such as"),
    ],
)
def test_an_address_that_names_nothing_is_refused(tmp_path: Path, text: str, words: str) -> None:
    calculation = calculate(load(written(tmp_path, GOOD)))
    with pytest.raises(addresses.UnknownAddress, match=re.escape(words)):
        addresses.parse(text, calculation)

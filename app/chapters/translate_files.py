"""What can be taken away: the translation and everything inside one pass, as data."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Final

from app.chapters.translate_answers import Answer
from app.chapters.translate_compare import WhatChanged, what_changed
from app.chapters.translate_state import KINDS
from app.chapters.translate_tokens import label
from app.translation.protocol import Hypothesis, Interventions, Sentence, Token, Trace, Translation

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def translation_json(answer: Answer) -> dict[str, Any]:
    """The API's answer. Top level: the sentence that the state looks at; `sentences`: all."""
    state = answer.state
    found: dict[str, Any] = {
        "model": state.model,
        "text": state.text,
        "beam_size": state.beam_size,
        "alpha": state.alpha,
        "digest": "",
        "translation": "",
        "source_tokens": [],
        "hypotheses": [],
        "sentences": [],
        "notices": list(answer.notices),
    }
    if answer.translation is None:
        return found
    translation = answer.translation
    found |= {
        "digest": translation.digest,
        "translation": translation.translation,
        **_sentence(answer.sentence),
        "sentences": [_sentence(sentence) for sentence in translation.sentences],
    }
    if answer.comparison is not None:
        found["changed"] = _changed(answer)
    return found


def _sentence(sentence: Sentence) -> dict[str, Any]:
    return {
        "source": sentence.text,
        "source_tokens": tokens_json(sentence.source_tokens),
        "hypotheses": [
            {
                "text": h.text,
                "tokens": tokens_json(h.tokens),
                "log_probs": list(h.log_probs),
                "log_prob": h.log_prob,
                "length": len(h.tokens),
                "length_penalty": h.length_penalty,
                "score": h.score,
                "ended": h.ended,
            }
            for h in sentence.hypotheses
        ],
    }


def tokens_json(tokens: tuple[Token, ...]) -> list[dict[str, Any]]:
    """Tokens with what tells END from the text that looks like it."""
    return [{"id": token.id, "text": token.text, "kind": token.kind} for token in tokens]


def _changed(answer: Answer) -> dict[str, Any]:
    assert answer.comparison is not None
    comparison = answer.comparison
    what: WhatChanged = what_changed(comparison, answer.state.edit if answer.state.edited else 0)
    return {
        "interventions": interventions_json(comparison.after.interventions),
        "target_tokens": tokens_json(comparison.after.target_tokens),
        "log_prob_before": what.log_prob,
        "log_prob_after": what.log_prob_now,
        "translation": comparison.translation,
        "positions": [
            {
                "position": change.position,
                "identical": change.identical,
                "largest_probability_change": change.largest,
                "kl_divergence": change.divergence,
                "largest_layer_norm_change": change.layer_norm,
            }
            for change in what.changes
        ],
    }


def interventions_json(how: Interventions) -> dict[str, Any]:
    """The reader's changes; layers and heads from 1, as in the page's address."""
    silenced = sorted(f"{kind}.{layer + 1}.{head + 1}" for kind, layer, head in how.silenced)
    return {
        "causal": how.causal,
        "scaled": how.scaled,
        "positions": how.positions,
        "silenced": silenced,
    }


def trace_json(trace: Trace, sublayer: str) -> bytes:
    """Every array of one pass; the vectors of one sub-layer (`stack.layer.kind`, from 1).

    Several megabytes for a long sentence, which take a second to write.
    """
    stack, layer, kind = sublayer.split(".")
    chosen = trace.sublayers[f"{stack}.{int(layer) - 1}.{kind}"]
    head = {
        "model": trace.model,
        "digest": trace.digest,
        "source_tokens": tokens_json(trace.source_tokens),
        "target_tokens": tokens_json(trace.target_tokens),
        "predicted": tokens_json(trace.predicted),
        "interventions": interventions_json(trace.interventions),
        "log_prob": trace.log_prob,
        "next_tokens": [
            [
                {"id": n.token.id, "text": n.token.text, "probability": n.probability}
                for n in entries
            ]
            for entries in trace.next_tokens
        ],
        "statistics": {
            name: {"mean": s.mean.tolist(), "deviation": s.deviation.tolist()}
            for name, s in trace.sublayers.items()
        },
    }
    parts = [json.dumps(head)[:-1]]
    for name, stacked in (
        ("encoder", trace.encoder),
        ("decoder", trace.decoder),
        ("cross", trace.cross),
    ):
        # head by head: one call for all of them would keep other threads waiting
        layers = [
            f"[{','.join(json.dumps(weights.tolist()) for weights in heads)}]" for heads in stacked
        ]
        parts.append(f'"{name}":[{",".join(layers)}]')
    vectors = [
        f'"{name}":{json.dumps(array.tolist())}'
        for name, array in (
            ("output", chosen.output),
            ("residual_sum", chosen.residual_sum),
            ("layer_norm", chosen.layer_norm),
        )
    ]
    parts.append(f'"sublayer":{{"name":{json.dumps(sublayer)},{",".join(vectors)}}}')
    return (",".join(parts) + "}").encode("ascii")


def blank_trace_json(model: str, how: Interventions) -> bytes:
    """The same for a blank text: nothing was computed, so every list is empty."""
    lists = ("source_tokens", "target_tokens", "predicted", "next_tokens", *KINDS)
    found: dict[str, Any] = {
        "model": model,
        "digest": "",
        **{name: [] for name in lists},
        "interventions": interventions_json(how),
        "log_prob": 0.0,
        "statistics": {},
        "sublayer": None,
    }
    return json.dumps(found).encode("ascii")


def nbest_csv(translation: Translation | None) -> bytes:
    """Every sentence's n-best list, a row a hypothesis."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        ["sentence", "rank", "translation", "tokens", "log_prob", "length_penalty", "score"]
    )
    for number, sentence in enumerate(translation.sentences if translation else (), start=1):
        for rank, h in enumerate(sentence.hypotheses, start=1):
            writer.writerow(
                [number, rank, _plain(h.text), _pieces(h), h.log_prob, h.length_penalty, h.score]
            )
    return ("\ufeff" + out.getvalue()).encode("utf-8", "replace")


def _pieces(hypothesis: Hypothesis) -> str:
    return _plain(" ".join(label(token).text for token in hypothesis.tokens))


def _plain(text: str) -> str:
    """`text` so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text

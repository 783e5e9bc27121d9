#!/usr/bin/env python3
"""Makes tests/fixtures/tokens: small tokenizers by Hugging Face's tokenizers and by SentencePiece, and what
these make of hard and of ordinary text. Only a person who changes a definition runs it:

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
    python3 scripts/make_token_goldens.py
"""

import base64
import json
import pathlib
import re

import sentencepiece
import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "fixtures" / "tokens"

# The project's own prose, as it was when this ran: corpus.txt is kept.
SOURCES = ["README.md", "configs/README.md", "kernels/README.md", "data/digits/README.md"]

TEXTS = [
    "", " ", "  ", "a", "three seven oh nine", "  double  spaces   and ends  ", "it's o'clock",
    "tabs\tand\nlines\r\n", "Capitals And MORE", "non\u00a0breaking", "\u2581mark\u2581inside",
    "ﬁne ligature ½ ™ ﷺ", "cafe\u0301 naïve Ångström", "ＦＵＬＬ width", "Straße İstanbul ΑΣ",
    "日本語の文", "한국어 문장", "русский текст", "हिन्दी में", "emoji 👩‍👩‍👧 👍🏽", "zero\u200bwidth",
    "aaaa aaaaaaa hmmmmm xxxiii", "<unk> <s> </s> <pad> <0x41>", "the-the--the", "abcABC123",
    "a\u0301\u0302b", "\u0000nul", "thinginging thththth", "xyzzy qqq",
    "eeeeeeee tttttttttt ssssssssssss nnnnnnn llllllllll pppppppp", "[x] user [x]defined",
]

RULES = [  # from, to: code points in hex, as SentencePiece's normalisation_rule_tsv has them
    ("FB01", "66 69"), ("65 301", "E9"), ("BD", "31 2F 32"), ("9", "20"), ("A", "20"), ("A0", "20"),
    ("200B", ""), ("FF26", "66"), ("FF35", "75"), ("FF2C", "6C"), ("61 301 302", "61"), ("61 301", "E1"),
] + [(f"{c:X}", f"{c + 32:X}") for c in range(ord("A"), ord("Z") + 1)]


def corpus():
    path = OUT / "corpus.txt"
    if path.exists():
        return path.read_text(encoding="utf-8").splitlines()
    lines = []
    for source in SOURCES:
        for line in (ROOT / source).read_text(encoding="utf-8").splitlines():
            line = re.sub(r"[^A-Za-z' ]+", " ", line).lower()
            line = " ".join(line.split())
            if line.count(" ") >= 5:
                lines.append(line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def sentencepiece_models(lines):
    rules = OUT / "rules.tsv"
    rules.write_text("".join(f"{a}\t{b}\n" for a, b in RULES))
    common = dict(input=str(OUT / "corpus.txt"), minloglevel=2, normalization_rule_tsv=str(rules), num_threads=1)
    plain = dict(input=str(OUT / "corpus.txt"), minloglevel=2, normalization_rule_name="identity", num_threads=1)
    settings = {
        "sp-unigram": dict(common, model_type="unigram", vocab_size=200),
        "sp-unigram-bytes": dict(common, model_type="unigram", vocab_size=460, byte_fallback=True,
                                 user_defined_symbols=["[x]", "the"]),
        "sp-bpe": dict(plain, model_type="bpe", vocab_size=200),
        "sp-bpe-bytes": dict(common, model_type="bpe", vocab_size=420, byte_fallback=True,
                             user_defined_symbols=["[x]"], remove_extra_whitespaces=False),
        "sp-bpe-suffix": dict(common, model_type="bpe", vocab_size=100, treat_whitespace_as_suffix=True),
        "sp-unigram-bare": dict(plain, model_type="unigram", vocab_size=100, add_dummy_prefix=False,
                                bos_id=-1, eos_id=-1),
        "sp-char": dict(plain, model_type="char", vocab_size=40),
    }
    for name, setting in settings.items():
        sentencepiece.SentencePieceTrainer.train(model_prefix=str(OUT / name), **setting)
        (OUT / f"{name}.vocab").unlink()
        yield f"{name}.model"
    rules.unlink()


def trained(model, trainer, lines, normalizer=None, pre_tokenizer=None, decoder=None):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def words():
    return dict(
        pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        decoder=decoders.Metaspace(),
    )


def hugging_face_models(lines):
    bpe = trained(models.BPE(), trainers.BpeTrainer(vocab_size=300, show_progress=False), lines, **words())
    yield "hf-bpe.json", bpe

    unigram = trained(
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=200, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]),
        lines,
        normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"),
        decoder=decoders.Metaspace(prepend_scheme="first"),
    )
    yield "hf-unigram.json", unigram

    # As Llama's: no pre-tokeniser, bytes, a chain of decoders.
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    llama = trained(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + bytes_),
        lines,
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="never"),
        decoder=decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    )
    file = json.loads(llama.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["id"] < 3]
    file["pre_tokenizer"] = None
    yield "hf-llama.json", Tokenizer.from_str(json.dumps(file))

    # As Parakeet's: converted from SentencePiece, the padding token behind the pieces is the blank.
    proto = sentencepiece.SentencePieceProcessor(model_file=str(OUT / "sp-bpe-bytes.model"))
    from sentencepiece import sentencepiece_model_pb2 as pb

    message = pb.ModelProto()
    message.ParseFromString((OUT / "sp-bpe-bytes.model").read_bytes())
    vocab = {proto.id_to_piece(i): i for i in range(proto.get_piece_size())}
    merges = []
    for piece in vocab:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab and vocab[piece] > 258:
                merges.append((vocab[piece], vocab[left], vocab[right], left, right))
    merges = [(left, right) for *_, left, right in sorted(merges)]
    parakeet = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    charsmap = base64.b64encode(message.normalizer_spec.precompiled_charsmap).decode()
    parakeet.normalizer = normalizers.Sequence([
        normalizers.Precompiled(base64.b64decode(charsmap)),
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁"),
    ])
    parakeet.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    parakeet.decoder = decoders.Metaspace()
    parakeet.add_special_tokens(["<unk>", "<s>", "</s>"])
    parakeet.add_special_tokens(["<pad>"])
    yield "hf-parakeet.json", parakeet

    # As transformers 5 converts a unigram model.
    message.ParseFromString((OUT / "sp-unigram.model").read_bytes())
    unigram = Tokenizer(models.Unigram([(p.piece, p.score) for p in message.pieces], unk_id=0, byte_fallback=False))
    unigram.normalizer = normalizers.Sequence([
        normalizers.Precompiled(message.normalizer_spec.precompiled_charsmap),
        normalizers.Replace(Regex(r"\A +| +\z"), ""),
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Replace(" ", "▁"),
        normalizers.Replace(Regex(r"\A▁"), "▁▁"),
    ])
    unigram.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)])
    unigram.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)])
    unigram.add_special_tokens(["<unk>", "<s>", "</s>"])
    yield "hf-converted.json", unigram


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lines = corpus()
    texts = TEXTS + lines[::30]
    cases = []
    for name in sentencepiece_models(lines):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(OUT / name))
        unknown = processor.unk_id()
        for text in texts:
            ids = processor.encode(text)
            kept = [i for i in ids if i != unknown]
            cases.append({"file": name, "text": text, "ids": kept, "unknown": kept != ids,
                          "decoded": processor.decode(kept)})
    for name, tokenizer in hugging_face_models(lines):
        tokenizer.save(str(OUT / name), pretty=False)
        unknown = tokenizer.token_to_id("<unk>")
        for text in texts:
            # Hugging Face finds added tokens in a text before all else; a transcript holds none.
            if "<" in text:
                continue
            # Without an unknown token BPE drops characters unseen, and merges across them.
            if unknown is None and any(c not in tokenizer.get_vocab() for c in text if not c.isspace()):
                continue
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            kept = [i for i in ids if i != unknown]
            cases.append({"file": name, "text": text, "ids": kept, "unknown": kept != ids,
                          "decoded": tokenizer.decode(kept)})
    goldens = {
        "made_by": "scripts/make_token_goldens.py",
        "tokenizers": tokenizers.__version__,
        "sentencepiece": sentencepiece.__version__,
        "cases": cases,
    }
    text = json.dumps(goldens, ensure_ascii=True)
    text = text.replace('{"file"', '\n{"file"')
    (OUT / "goldens.json").write_text(text + "\n")


main()

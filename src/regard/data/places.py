"""Where the data of recipes, the demo and the tests lies: found by a name such as `multi30k/train.en.gz`.

What is unusual: nothing is ever downloaded. What is absent raises an error that says where to get it and where to put
it, so a recipe can name its data the same on every machine.
What it does not know: what is in the files.
"""

from __future__ import annotations

import os
from pathlib import Path

from regard.errors import DataError

ORIGINS = {
    "multi30k/bpe-en-de": "data/multi30k-en-de of github.com/LividWo/Revisit-MMT, each file compressed by gzip,",
    "multi30k": "data/task1/raw of github.com/multi30k/dataset",
    "tinyshakespeare": "input.txt of data/tinyshakespeare in github.com/karpathy/char-rnn",
    "chinese-poetry": "tang.tsv.gz (title, author, text of each poem of poet.tang.N.json, github.com/chinese-poetry)",
    "trec": "train.txt and test.txt (train_5500.label and TREC_10.label of packages/corpora/qc.zip in "
    "github.com/nltk/nltk_data, as UTF-8)",
    "sst2": "train.tsv and test.tsv of data/SST2 in github.com/clairett/pytorch-sentiment-classification, and GLUE's "
    "train.tsv and dev.tsv as glue-train-phrases.tsv.gz and glue-dev.tsv,",
    "movie-reviews": "packages/corpora/movie_reviews.zip of github.com/nltk/nltk_data as movie_reviews.tsv.gz (columns "
    "fold, label, name, text)",
    "ocnli": "train.10k.json and dev.json of data/ocnli in github.com/CLUEbenchmark/OCNLI, each compressed by gzip,",
    "rte": "GLUE's RTE, train.tsv and dev.tsv, each compressed by gzip,",
    "xquad": "xquad.en.json of github.com/google-deepmind/xquad, compressed by gzip,",
    "squad": "dev-v1.1.json of github.com/rajpurkar/SQuAD-explorer, compressed by gzip,",
    "tatoeba-cmn-eng": "cmn.txt of manythings.org/anki (English and Mandarin), compressed as cmn.txt.gz,",
}
"""Where the folders that recipes name can be had; the more exact names first."""


def find_data(name: str) -> Path:
    """The file or folder `name`: in $REGARD_DATA, else in shared/data beside or above where we or this file are.

    Where it is in none of these, but is a path that exists, it is that path; what recipes had made is found too.

    Raises:
        DataError: it is nowhere; says where to get it and where to put it.
    """
    if "REGARD_DATA" in os.environ:
        places = [Path(os.environ["REGARD_DATA"])]
    else:
        starts = (Path.cwd(), Path(__file__).resolve().parent)
        places = [folder / "shared" / "data" for start in starts for folder in (start, *start.parents)]
    for place in (*places, Path(), made_data()):
        if (place / name).exists():
            return place / name
    origin = next((folder for folder in ORIGINS if name.startswith(folder)), None)
    raise DataError(
        "this data is not on this machine",
        where=places[0] / name,
        mend=f"put {ORIGINS[origin]} into FOLDER/{origin}, and set REGARD_DATA=FOLDER" if origin
        else "set REGARD_DATA to the folder that it is in",
    )  # fmt: skip


def made_data() -> Path:
    """The folder of the files that recipes make from others: in the user's cache, for they can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / "data"

"""Which compiler flags a program may declare: those that change code, none that read, write or run anything."""

import re

_ALLOWED = re.compile(
    r"-O([0-3sgz]|fast)?"
    r"|-std=(c|gnu)\+\+[0-9a-z]+"
    r"|-m[a-z0-9][a-z0-9.+-]*(=[A-Za-z0-9.,+-]+)?"
    r"|-f(no-)?[a-z][a-z0-9-]*(=[a-z0-9,.-]+)?"
    r"|--param=[a-z0-9-]+=[0-9]+"
    r"|-[DU][A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?"
    r"|-W(no-)?[a-z][a-z0-9+-]*(=[0-9]+)?"
    r"|-pthread|-lm|-lpthread|-lgomp|-g[0-3]?|-w|-pipe"
)
_REFUSED = re.compile(
    r"-f(no-)?(plugin|profile|auto-profile|dump|save|sanitize|branch-probabilities|callgraph|stack-usage|test-coverage"
    r"|pch|working-directory|file-prefix|debug-prefix|macro-prefix|compare-debug|diagnostics|use-ld|module|report"
    r"|syntax-only|preprocessed|repo|dep|ada|go|opt-info).*"
    r"|-m(abi|32|x32|16|dll|windows|console).*"
)
_CUDA = re.compile(
    r"-O[0-3]|-std=c\+\+(14|17|20|23)|(--|-)use_fast_math|--ftz=(true|false)|--fmad=(true|false)"
    r"|--prec-(div|sqrt)=(true|false)|-maxrregcount=[0-9]+|--maxrregcount=[0-9]+|-lineinfo|-w"
    r"|--expt-(relaxed-constexpr|extended-lambda)|--extended-lambda|--extra-device-vectorization|-G|-g"
    r"|-Xptxas=(-O[0-4]|-dlcm=c[agsv]|-dscm=(wb|cg|cs|wt)|--allow-expensive-optimizations=(true|false)|-v)"
    r"|-[DU][A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?|-lcublas|-lcublasLt|-lcuda"
)
DEFAULT = ("-O3", "-march=native")
DEFAULTS = {"cpp": DEFAULT, "cuda": ("-O3", "-std=c++17")}
"""Language -> flags of a program that declares none, when its task has none either."""


def refused(flags: tuple[str, ...], language: str = "cpp") -> list[str]:
    """Return the flags that a program must not use."""
    if language == "cuda":
        return [flag for flag in flags if not _CUDA.fullmatch(flag)]
    return [flag for flag in flags if not _ALLOWED.fullmatch(flag) or _REFUSED.fullmatch(flag)]

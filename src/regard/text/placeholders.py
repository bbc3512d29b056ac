"""Parts of a text that a translator must copy, not translate: placeholders, addresses, markup.

    {name} {0} {{user.name}} ${total} #{x}     %s %1$d %(n)d %.2f %@ %%      https://a.org/b?c=d  www.a.org  a.b@c.org
    <b> </b> <br/> <a href="x">                and, on request, numbers: 17  3,456.78  12.05.2024  5:30

What is unusual: a number is not protected unless asked for. 1,234.5 is 1.234,5 in German, 5:30 PM is 17:30, and a
translator who may not write them so is worse, not safer. On request each comes out as it is written, signs and all.
`% s` is no placeholder here (100 % sure), nor is an ICU pattern with text inside its braces, nor an entity (&apos;).
What it does not know: what becomes of them.
"""

from __future__ import annotations

import re

# Every part is bounded, or begins only where a run begins, so that a search takes linear time on any text.
COPIED = r"""(?a:
    (?: https?:// | ftp:// | (?<!\w) www\. ) [\w\-.~:/?\#\[\]@!$&'()*+,;=%]* [\w/\#=~%&+\-]
  | (?<![\w.%+\-]) [\w.%+\-]{1,64} @ [\w\-]{1,63} (?: \. [\w\-]{1,63} ){1,8}
  | </? [A-Za-z] [\w:.\-]{0,40} (?: \s [^<>\n]{0,200} )? /? >
  | [$%\#]? \{\{ [^\s{}]{0,80} \}\}
  | [$%\#]? \{ [^\s{}]{0,80} \}
  | % (?: \d{1,3} \$ )? (?: \( \w{1,40} \) )? [\-+\#0]{0,4} \d{0,4} (?: \. \d{1,4} )? (?: hh? | ll? | [Lzjt] )?
      [diouxXeEfFgGcsaAp@] (?![A-Za-z])
  | %%
)"""
"""All but numbers, for `re.VERBOSE`."""
NUMBER = r"\d+ (?: [.,:/\-] \d+ )*"
"""For `re.VERBOSE`."""
_PATTERN = re.compile(COPIED, re.VERBOSE)


def find(text: str) -> list[tuple[int, int]]:
    """Where the parts to copy stand, (first character, character after the last), in order and apart; no numbers."""
    return [found.span() for found in _PATTERN.finditer(text)]

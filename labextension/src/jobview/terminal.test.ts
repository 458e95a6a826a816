import { describe, expect, it } from 'vitest';

import { TerminalText } from './terminal';

function shown(...pieces: string[]): string[] {
  const terminal = new TerminalText();
  pieces.forEach(piece => terminal.write(piece));
  return terminal.lines.map(line =>
    line.segments.map(segment => segment.text).join('')
  );
}

describe('a log as a terminal shows it', () => {
  it.each([
    ['lines', ['one\ntwo\n'], ['one', 'two', '']],
    ['a line in two pieces', ['on', 'e\n'], ['one', '']],
    ['a progress bar', ['0%\r 50%\r100%\n'], ['100%', '']],
    ['a shorter text over a longer one', ['abcdef\rxy'], ['xycdef']],
    ['an erased line', ['abcdef\r\x1b[Kxy'], ['xy']],
    ['an erased beginning', ['abcdef\x1b[3D\x1b[1Kx'], ['   xef']],
    ['a jump to a column', ['ab\x1b[5Gx\x1b[2Gy'], ['ay  x']],
    ['a wholly erased line', ['abc\x1b[2K\rx'], ['x']],
    ['Windows line ends', ['one\r\ntwo'], ['one', 'two']],
    ['backspace', ['abc\b\bX'], ['aXc']],
    ['tabs', ['a\tb'], ['a       b']],
    ['two bars of tqdm', ['A 0\nB 0\x1b[A\rA 9\n\rB 9'], ['A 9', 'B 9']],
    ['a title, which is no text', ['\x1b]0;title\x07x'], ['x']],
    ['a link, without its address', ['\x1b]8;;http://a\x1b\\x'], ['x']],
    ['an unknown sequence', ['\x1b[?25lx\x1b(Bz'], ['xz']],
    ['a sequence in two pieces', ['\x1b[3', '1mred\x1b', '[0m!'], ['red!']],
    ['other control characters', ['a\x00\x07b'], ['ab']],
    ['unicode', ['é😀x\r__'], ['__x']]
  ])('%s', (_, pieces, lines) => {
    expect(shown(...pieces)).toEqual(lines);
  });

  it('has colours as classes of JupyterLab', () => {
    const terminal = new TerminalText();
    terminal.write(
      '\x1b[1;31mred\x1b[22m\x1b[92;44mgreen\x1b[38;5;200m\x1b[0mplain'
    );
    expect(terminal.lines[0].segments).toEqual([
      { text: 'red', className: 'ansi-red-fg ansi-bold' },
      { text: 'green', className: 'ansi-green-intense-fg ansi-blue-bg' },
      { text: 'plain', className: '' }
    ]);
  });

  it('leaves old lines as they are, so that they are not drawn again', () => {
    const terminal = new TerminalText();
    terminal.write('line\n'.repeat(500));
    const before = terminal.lines;
    terminal.write('more\n');
    const after = terminal.lines;
    expect(after).toHaveLength(502);
    expect(after[0]).toBe(before[0]);
    expect(after[400]).toBe(before[400]);
    expect(new Set(after.map(line => line.key)).size).toBe(502);
  });

  it('never shows HTML as anything but text', () => {
    expect(shown('<img src=x onerror=alert(1)>')).toEqual([
      '<img src=x onerror=alert(1)>'
    ]);
  });
});

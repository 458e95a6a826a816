/** A piece of a line that looks the same. */
export interface ISegment {
  text: string;
  /** Classes of JupyterLab for coloured output; empty for plain text. */
  className: string;
}

export interface ILine {
  readonly key: number;
  readonly segments: readonly ISegment[];
}

/** Lines before the last ones are never written to again. */
const MUTABLE_LINES = 40;

const COLOURS = [
  'black',
  'red',
  'green',
  'yellow',
  'blue',
  'magenta',
  'cyan',
  'white'
];

/** A line that may still change; `width` counts characters, not code units. */
interface IOpenLine {
  readonly key: number;
  segments: ISegment[];
  width: number;
}

/**
 * The text that a terminal would show: carriage returns and erased lines (as
 * progress bars use them) overwrite, colours become classes, and everything else
 * that a terminal understands leaves no trace.
 */
export class TerminalText {
  /** Finished lines followed by the ones that may still change. */
  get lines(): readonly ILine[] {
    return [...this._done, ...this._open.map(toLine)];
  }

  write(text: string): void {
    const input = this._rest + text;
    this._rest = '';
    PATTERN.lastIndex = 0;
    let match: RegExpExecArray | null;
    while ((match = PATTERN.exec(input)) !== null) {
      const { plain, control, unfinished } = match.groups ?? {};
      if (unfinished !== undefined) {
        this._rest = unfinished;
      } else if (plain !== undefined) {
        this._print(plain);
      } else if (control !== undefined) {
        this._control(control);
      } else {
        this._escape(match.groups?.parameters ?? '', match.groups?.final ?? '');
      }
    }
    this._settle();
  }

  private _print(text: string): void {
    const line = this._open[this._row];
    if (line.width < this._column) {
      append(line, ' '.repeat(this._column - line.width), '');
    }
    const start = this._column;
    this._column += widthOf(text);
    if (line.width === start) {
      append(line, text, this._className);
    } else {
      const rest = cut(line, this._column, line.width);
      line.segments = cut(line, 0, start);
      line.width = start;
      append(line, text, this._className);
      rest.forEach(segment => append(line, segment.text, segment.className));
    }
  }

  private _control(char: string): void {
    if (char === '\n') {
      this._column = 0;
      this._row += 1;
      if (this._row === this._open.length) {
        this._open.push(this._newLine());
      }
    } else if (char === '\r') {
      this._column = 0;
    } else if (char === '\b') {
      this._column = Math.max(0, this._column - 1);
    } else if (char === '\t') {
      this._print(' '.repeat(8 - (this._column % 8)));
    }
  }

  private _escape(parameters: string, final: string): void {
    const count = Number(parameters.split(';')[0]) || 1;
    switch (final) {
      case 'm':
        this._style(parameters);
        break;
      case 'K':
        this._erase(parameters);
        break;
      case 'A':
        this._row = Math.max(0, this._row - count);
        break;
      case 'B':
        this._row = Math.min(this._open.length - 1, this._row + count);
        break;
      case 'C':
        this._column += Math.min(count, 1000);
        break;
      case 'D':
        this._column = Math.max(0, this._column - count);
        break;
      case 'G':
        this._column = Math.min(count, 1000) - 1;
        break;
    }
  }

  private _erase(parameters: string): void {
    const line = this._open[this._row];
    const whole = parameters === '2';
    const start = parameters === '1' ? this._column : line.width;
    const kept = whole
      ? []
      : parameters === '1'
        ? cut(line, start, line.width)
        : cut(line, 0, this._column);
    line.segments = [];
    line.width = 0;
    if (parameters === '1') {
      append(line, ' '.repeat(start), '');
    }
    kept.forEach(segment => append(line, segment.text, segment.className));
  }

  private _style(parameters: string): void {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let index = 0; index < codes.length; index += 1) {
      const code = codes[index];
      if (code === 0) {
        this._foreground = this._background = '';
        this._bold = false;
      } else if (code === 1) {
        this._bold = true;
      } else if (code === 22) {
        this._bold = false;
      } else if (code === 38 || code === 48) {
        // 256 colours and true colours are left out, with what belongs to them.
        index += codes[index + 1] === 5 ? 2 : 4;
      } else {
        this._colour(code);
      }
    }
    this._className = [
      this._foreground && `ansi-${this._foreground}-fg`,
      this._background && `ansi-${this._background}-bg`,
      this._bold && 'ansi-bold'
    ]
      .filter(Boolean)
      .join(' ');
  }

  private _colour(code: number): void {
    const colour = COLOURS[code % 10];
    switch (Math.floor(code / 10)) {
      case 3:
        this._foreground = colour ?? '';
        break;
      case 9:
        this._foreground = colour ? `${colour}-intense` : '';
        break;
      case 4:
        this._background = colour ?? '';
        break;
      case 10:
        this._background = colour ? `${colour}-intense` : '';
        break;
    }
  }

  /** Close the lines that nothing can reach any more. */
  private _settle(): void {
    const surplus = this._open.length - MUTABLE_LINES;
    if (surplus > 0) {
      for (const line of this._open.splice(0, surplus)) {
        this._done.push(toLine(line));
      }
      this._row = Math.max(0, this._row - surplus);
    }
  }

  private _newLine(): IOpenLine {
    this._count += 1;
    return { key: this._count, segments: [], width: 0 };
  }

  private readonly _done: ILine[] = [];
  private _count = 0;
  private readonly _open: IOpenLine[] = [this._newLine()];
  private _row = 0;
  private _column = 0;
  private _rest = '';
  private _foreground = '';
  private _background = '';
  private _bold = false;
  private _className = '';
}

/**
 * Plain text, a control character, an escape sequence (CSI with its parts, or
 * another one that is ignored), or the beginning of one at the end of the input.
 */
const PATTERN = new RegExp(
  [
    // eslint-disable-next-line no-control-regex
    /(?<plain>[^\x00-\x1f\x7f]+)/,
    // eslint-disable-next-line no-control-regex
    /\x1b\[(?<parameters>[0-?]*)[ -/]*(?<final>[@-~])/,
    // eslint-disable-next-line no-control-regex
    /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/,
    // eslint-disable-next-line no-control-regex
    /(?<unfinished>\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,500}\x1b?)?$)/,
    // eslint-disable-next-line no-control-regex
    /\x1b[ -/]*[0-~]/,
    // eslint-disable-next-line no-control-regex
    /(?<control>[\x00-\x1f\x7f])/
  ]
    .map(({ source }) => source)
    .join('|'),
  'gu'
);

function toLine({ key, segments }: IOpenLine): ILine {
  return { key, segments: segments.map(segment => ({ ...segment })) };
}

function widthOf(text: string): number {
  // Most text has no character of two code units, and counting is slow.
  return /[\ud800-\udfff]/.test(text) ? [...text].length : text.length;
}

/** Write at the end of a line; what looks the same stays one segment. */
function append(line: IOpenLine, text: string, className: string): void {
  if (text) {
    const last = line.segments.at(-1);
    if (last && last.className === className) {
      last.text += text;
    } else {
      line.segments.push({ text, className });
    }
    line.width += widthOf(text);
  }
}

/** The segments between two columns of a line. */
function cut({ segments }: IOpenLine, from: number, to: number): ISegment[] {
  const found: ISegment[] = [];
  let column = 0;
  for (const { text, className } of segments) {
    const chars = [...text];
    const piece = chars
      .slice(Math.max(0, from - column), Math.max(0, to - column))
      .join('');
    if (piece) {
      found.push({ text: piece, className });
    }
    column += chars.length;
  }
  return found;
}

/** A line as it comes: pairs of what is counted and the value, null where there is none. */
export interface ILine {
  id: string;
  label: string;
  points: readonly (readonly (number | null)[])[];
}

type Point = readonly [x: number, y: number];

/** A line as it is drawn: in order, without gaps, and no longer than eyes can follow. */
export interface IShownLine {
  id: string;
  label: string;
  points: readonly Point[];
}

export const MAX_POINTS = 600;

export function shownLines(lines: readonly ILine[]): IShownLine[] {
  return lines.map(({ id, label, points }) => {
    const known = points.flatMap(([x, y]): Point[] =>
      isNumber(x) && isNumber(y) ? [[x, y]] : []
    );
    return { id, label, points: thinned(known.sort((a, b) => a[0] - b[0])) };
  });
}

function isNumber(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** Evenly taken, with both ends. */
function thinned(points: readonly Point[]): readonly Point[] {
  if (points.length <= MAX_POINTS) {
    return points;
  }
  const step = (points.length - 1) / (MAX_POINTS - 1);
  return Array.from(
    { length: MAX_POINTS },
    (_, index) => points[Math.round(index * step)]
  );
}

/** Where values lie between the ends of an axis, 0 to 1, and the values to write beside it. */
export interface IScale {
  share(value: number): number;
  marks: readonly number[];
}

export function scaleOf(values: readonly number[], isLog: boolean): IScale {
  const bent = isLog ? Math.log10 : (value: number): number => value;
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const from = bent(low);
  const span = bent(high) - from;
  // All the same: in the middle.
  const share = (value: number): number =>
    span > 0 ? (bent(value) - from) / span : 0.5;
  return {
    share,
    marks: span > 0 ? (isLog ? decades(low, high) : round(low, high)) : [low]
  };
}

const WISHED_MARKS = 5;

/** A few round values within these ends. */
function round(low: number, high: number): number[] {
  const rough = (high - low) / WISHED_MARKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 5, 10].map(factor => factor * power).find(each => each >= rough) ??
    rough;
  const found: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) {
    found.push(Number((index * step).toPrecision(12)));
  }
  return found;
}

/** Powers of ten within these ends; both ends where there are none. */
function decades(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first) / WISHED_MARKS));
  const found: number[] = [];
  for (let power = first; power <= last; power += every) {
    found.push(Number(`1e${power}`));
  }
  return found.length ? found : [low, high];
}

/** Every place at which some line has a value, in order. */
export function placesOf(lines: readonly IShownLine[]): number[] {
  const places = new Set(
    lines.flatMap(line => line.points.map(([place]) => place))
  );
  return [...places].sort((a, b) => a - b);
}

/** The value of a line at a place; the one before it where it has none there. */
export function valueAt(line: IShownLine, place: number): Point | null {
  let found: Point | null = null;
  for (const point of line.points) {
    if (point[0] > place) {
      break;
    }
    found = point;
  }
  return found;
}

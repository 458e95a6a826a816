import * as React from 'react';

/** So many lines above and below the visible ones are drawn too. */
const MARGIN = 8;

/** Which way the lines are in the order of a column. */
export type Order = 'ascending' | 'descending' | 'none';

export interface IColumn {
  key: string;
  title: React.ReactNode;
  className?: string;
  /** A column that can be sorted has a button as its head. */
  order?: Order;
  onSort?: () => void;
}

interface IVirtualTableProps<T> {
  label: string;
  rows: readonly T[];
  /** Every line has this height, in CSS pixels. */
  rowHeight: number;
  columns: IColumn[];
  keyOf: (row: T) => string;
  /** The cells of a line. */
  children: (row: T) => React.ReactNode;
  classOf?: (row: T) => string;
}

/** A real table that draws only the lines that can be seen, so any number is smooth. */
export function VirtualTable<T>(props: IVirtualTableProps<T>): JSX.Element {
  const { label, rows, rowHeight, columns, keyOf, children, classOf } = props;
  const [top, setTop] = React.useState(0);
  const [height, setHeight] = React.useState(400);
  const ref = React.useRef<HTMLDivElement>(null);

  React.useEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const first = Math.max(
    0,
    Math.min(Math.floor(top / rowHeight), rows.length - 1) - MARGIN
  );
  const last = Math.min(
    rows.length,
    Math.ceil((top + height) / rowHeight) + MARGIN
  );
  return (
    <div
      className="jp-Hpc-table"
      ref={ref}
      onScroll={event => setTop(event.currentTarget.scrollTop)}
    >
      <table aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(({ key, ...column }) => (
              <Head key={key} {...column} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Space height={first * rowHeight} />
          {rows.slice(first, last).map((row, index) => (
            <tr
              key={keyOf(row)}
              aria-rowindex={first + index + 2}
              className={classOf?.(row)}
              style={{ height: rowHeight }}
            >
              {children(row)}
            </tr>
          ))}
          <Space height={(rows.length - last) * rowHeight} />
        </tbody>
      </table>
    </div>
  );
}

function Head(props: Omit<IColumn, 'key'>): JSX.Element {
  const { title, className, order, onSort } = props;
  return (
    <th scope="col" className={className} aria-sort={order}>
      {onSort ? (
        <button className="jp-Hpc-sort" onClick={onSort}>
          {title}
        </button>
      ) : (
        title
      )}
    </th>
  );
}

/** The room of the lines that are not drawn. */
function Space({ height }: { height: number }): JSX.Element | null {
  return height > 0 ? <tr aria-hidden="true" style={{ height }} /> : null;
}

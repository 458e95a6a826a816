import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ILogPiece, LogStream } from '../data/api';
import type { LogFollower } from '../data/log';
import type { ApiError } from '../data/request';
import type { IHpcClient } from '../tokens';
import { formatBytes } from '../ui/format';
import { VisibleContext } from '../ui/hooks';
import { Problem } from '../ui/problem';
import { type ILine, TerminalText } from './terminal';

/** Lines are drawn in blocks; the browser skips blocks that are out of sight. */
const BLOCK_LINES = 200;

interface ILogProps {
  client: IHpcClient;
  id: string;
  trans: TranslationBundle;
}

/** The output of the job as it grows. */
export function LogTab({ client, id, trans }: ILogProps): JSX.Element {
  const [stream, setStream] = React.useState<LogStream>('stdout');
  const [follow, setFollow] = React.useState(true);
  const log = useLog(client, id, stream);
  const box = React.useRef<HTMLDivElement>(null);

  React.useLayoutEffect(() => {
    if (follow && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  });
  const onScroll = (event: React.UIEvent<HTMLDivElement>): void => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    setFollow(scrollHeight - scrollTop - clientHeight < 40);
  };
  const names: Record<LogStream, string> = {
    stdout: trans.__('Output'),
    stderr: trans.__('Errors')
  };
  return (
    <>
      <div className="jp-Hpc-toolbar" role="group">
        {(['stdout', 'stderr'] as const).map(value => (
          <button
            key={value}
            className="jp-Hpc-choice"
            aria-pressed={stream === value}
            onClick={() => setStream(value)}
          >
            {names[value]}
          </button>
        ))}
        <label>
          <input
            type="checkbox"
            checked={follow}
            onChange={event => setFollow(event.target.checked)}
          />
          {trans.__('Follow')}
        </label>
        {log.piece?.exists && (
          <span className="jp-Hpc-quiet">
            {log.piece.path} · {formatBytes(log.piece.size)}
          </span>
        )}
      </div>
      {log.error && <Problem problem={log.error} />}
      {log.piece?.message && (
        <p className="jp-Hpc-quiet" role="status">
          {log.piece.message}
        </p>
      )}
      <div
        className="jp-Hpc-log jp-RenderedText"
        ref={box}
        onScroll={onScroll}
        role="region"
        aria-label={names[stream]}
        // A region that scrolls must be reachable with the keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
      >
        {log.earlier && (
          <button className="jp-Hpc-choice" onClick={log.earlier}>
            {trans.__('Show earlier output')}
          </button>
        )}
        <Lines lines={log.lines} />
      </div>
    </>
  );
}

interface ILog {
  lines: readonly ILine[];
  piece: ILogPiece | null;
  error: ApiError | null;
  /** Loads what stands before; null when the beginning is there. */
  earlier: (() => void) | null;
}

/** Everything that is known of one output: its raw text, and how a terminal shows it. */
class LogText {
  constructor(readonly follower: LogFollower) {}

  terminal = new TerminalText();
  piece: ILogPiece | null = null;
  error: ApiError | null = null;

  add(piece: ILogPiece): void {
    this.error = null;
    this.piece = piece;
    if (piece.restarted || this._raw === null) {
      this._raw = '';
      this._start = piece.offset;
      this.terminal = new TerminalText();
    }
    this._raw += piece.text;
    this.terminal.write(piece.text);
  }

  get hasEarlier(): boolean {
    return this._start > 0;
  }

  async loadEarlier(): Promise<void> {
    const piece = await this.follower.earlier(this._start);
    this._raw = piece.text + (this._raw ?? '');
    this._start = piece.offset;
    this.terminal = new TerminalText();
    this.terminal.write(this._raw);
  }

  private _raw: string | null = null;
  private _start = 0;
}

/** Follow one output while it can be seen. */
function useLog(client: IHpcClient, id: string, stream: LogStream): ILog {
  const visible = React.useContext(VisibleContext);
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  const log = React.useMemo(
    () => new LogText(client.followLog(id, stream)),
    [client, id, stream]
  );
  React.useEffect(() => {
    const { follower } = log;
    const onArrived = (_: LogFollower, piece: ILogPiece): void => {
      log.add(piece);
      render();
    };
    const onRefused = (_: LogFollower, error: ApiError): void => {
      log.error = error;
      render();
    };
    follower.arrived.connect(onArrived);
    follower.refused.connect(onRefused);
    return () => {
      follower.dispose();
    };
  }, [log]);
  React.useEffect(() => {
    log.follower.follow(visible);
  }, [log, visible]);

  const earlier = (): void => {
    log
      .loadEarlier()
      .catch(error => {
        log.error = error as ApiError;
      })
      .finally(render);
  };
  return {
    lines: log.terminal.lines,
    piece: log.piece,
    error: log.error,
    earlier: log.hasEarlier ? earlier : null
  };
}

function Lines({ lines }: { lines: readonly ILine[] }): JSX.Element {
  const blocks: JSX.Element[] = [];
  for (let start = 0; start < lines.length; start += BLOCK_LINES) {
    const block = lines.slice(start, start + BLOCK_LINES);
    blocks.push(<Block key={block[0].key} lines={block} />);
  }
  return <pre>{blocks}</pre>;
}

const Block = React.memo(
  function Block({ lines }: { lines: readonly ILine[] }): JSX.Element {
    return (
      <div className="jp-Hpc-log-block">
        {lines.map(line => (
          <React.Fragment key={line.key}>
            {line.segments.map((segment, index) =>
              segment.className ? (
                <span key={index} className={segment.className}>
                  {segment.text}
                </span>
              ) : (
                segment.text
              )
            )}
            {'\n'}
          </React.Fragment>
        ))}
      </div>
    );
  },
  (before, after) =>
    before.lines.length === after.lines.length &&
    before.lines.every((line, index) => line === after.lines[index])
);

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IMetric, IRunAgain, IRuns } from '../data/api';
import type { IHpcClient } from '../tokens';
import { Age, FeedView } from '../ui/feedview';
import { useTick } from '../ui/hooks';
import { VirtualTable } from '../ui/virtualtable';
import { confirmAndDelete, download, runAgain } from './actions';
import { Cells, columnsOf } from './columns';
import { Compare } from './compare';
import type { IFigures } from './figures';
import { type IRow, type ISort, NO_FILTER, tableRows } from './rows';
import { Actions, Filters, type IShown } from './toolbar';

const ROW_HEIGHT = 42;

export interface IRunsProps {
  client: IHpcClient;
  baseUrl: string;
  /** The notebook whose runs are wanted; empty for all. */
  notebook: string;
  /** Counts the times that somebody wanted them: each begins anew. */
  asked: number;
  openJob: (id: string) => void;
  submit: (path: string, choices: IRunAgain['choices']) => void;
  /** Opens what makes the first run; null where nothing does. */
  begin: (() => void) | null;
  figures: IFigures;
  trans: TranslationBundle;
}

/** Every run that was ever submitted, to look for, to compare and to go on from. */
export function RunsPage(props: IRunsProps): JSX.Element {
  const { client, trans } = props;
  return (
    <FeedView feed={client.runs} trans={trans}>
      {runs =>
        runs.submits.length > 0 ? (
          <Runs key={props.asked} runs={runs} {...props} />
        ) : (
          <Empty begin={props.begin} trans={trans} />
        )
      }
    </FeedView>
  );
}

function Empty(props: Pick<IRunsProps, 'begin' | 'trans'>): JSX.Element {
  const { begin, trans } = props;
  return (
    <div className="jp-Hpc-runs-empty">
      <p>
        {trans.__(
          'No run was submitted yet. Each notebook that runs as a batch job stays here with its parameters, results and curves, also when Slurm has forgotten it.'
        )}
      </p>
      {begin && (
        <button className="jp-Hpc-choice" onClick={begin}>
          {trans.__('Run a notebook as batch job')}
        </button>
      )}
    </div>
  );
}

function Runs(props: IRunsProps & { runs: IRuns }): JSX.Element {
  const { client, runs, notebook, openJob, trans } = props;
  const { submits, metrics } = runs;
  const [shown, setShown] = React.useState<IShown>({
    filter: { ...NO_FILTER, notebook },
    grouped: true,
    metric: ''
  });
  const [sort, setSort] = React.useState<ISort>({ column: 'when', down: true });
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = React.useState<ReadonlySet<string>>(new Set());
  const [compared, setCompared] = React.useState<readonly string[]>([]);
  const [busy, setBusy] = React.useState(false);
  useTick(60_000);

  const metric: IMetric | null =
    metrics.find(({ name }) => name === shown.metric) ?? metrics[0] ?? null;
  const rows = React.useMemo(
    () => tableRows(submits, shown.filter, sort, metric, shown.grouped, open),
    [submits, shown, sort, metric, open]
  );
  const all = React.useMemo(() => everyRun(submits), [submits]);
  const ids = [...all.keys()].filter(id => chosen.has(id));
  const present = ids.filter(id => all.get(id)?.kind === 'run');
  const inTable = rows.flatMap(idsOf);
  const mayDelete = client.session.value?.features.job_actions ?? true;

  const doing = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    try {
      await work();
    } finally {
      setBusy(false);
    }
  };
  const remove = async (): Promise<void> => {
    if (await confirmAndDelete(client, ids, trans)) {
      setChosen(new Set());
      await client.runs.refresh();
    }
  };
  const box = (label: string, some: readonly string[]): JSX.Element => (
    <Box
      label={label}
      ids={some}
      chosen={chosen}
      choose={(which, on) => setChosen(changed(chosen, which, on))}
    />
  );

  return (
    <div
      className={`jp-Hpc-runs${compared.length > 1 ? ' jp-mod-comparing' : ''}`}
    >
      <Filters
        {...{ shown, setShown, submits, metrics, trans }}
        now={client.now()}
      />
      <Actions
        chosen={ids.length}
        present={present.length}
        {...{ mayDelete, busy, trans }}
        compare={() => setCompared(present)}
        again={() =>
          void doing(() => runAgain(client, present[0], props.submit, trans))
        }
        download={() =>
          download(props.baseUrl, asSubmits(present, submits), trans)
        }
        remove={() => void doing(remove)}
      />
      {rows.length === 0 ? (
        <p className="jp-Hpc-quiet">
          {trans.__('No run matches. “Show all” takes the filter away.')}
        </p>
      ) : (
        <VirtualTable
          label={trans.__('Runs')}
          rows={rows}
          rowHeight={ROW_HEIGHT}
          columns={columnsOf(
            metric,
            sort,
            setSort,
            box(trans.__('Choose all runs that are shown'), inTable),
            trans
          )}
          keyOf={row => row.key}
          classOf={row =>
            idsOf(row).every(id => chosen.has(id)) ? 'jp-mod-selected' : ''
          }
        >
          {row => (
            <>
              <td>{box(trans.__('Choose %1', row.key), idsOf(row))}</td>
              <Cells
                {...{ row, metric, trans }}
                open={openJob}
                toggle={key => setOpen(changed(open, [key], !open.has(key)))}
              />
            </>
          )}
        </VirtualTable>
      )}
      <Age feed={client.runs} dated={runs} trans={trans} />
      {compared.length > 1 && (
        <Compare
          {...{ client, metric, trans }}
          rows={compared.flatMap(id => all.get(id) ?? [])}
          figures={props.figures}
          openJob={openJob}
          close={() => setCompared([])}
        />
      )}
    </div>
  );
}

/** Every run by its id, and what is gone by that of its job. */
function everyRun(submits: IRuns['submits']): Map<string, IRow> {
  const sort: ISort = { column: 'when', down: true };
  const rows = tableRows(submits, NO_FILTER, sort, null, false, new Set());
  return new Map(rows.map(row => [row.key, row]));
}

function idsOf(row: IRow): string[] {
  return row.kind === 'gone' ? [row.key] : row.runs.map(run => run.id);
}

/** A sweep of which every run is chosen is one archive. */
function asSubmits(
  ids: readonly string[],
  submits: IRuns['submits']
): readonly string[] {
  const chosen = new Set(ids);
  return submits.flatMap(({ job_id, runs }) => {
    const some = runs.filter(run => chosen.has(run.id)).map(run => run.id);
    return some.length > 1 && some.length === runs.length ? [job_id] : some;
  });
}

function changed(
  before: ReadonlySet<string>,
  keys: readonly string[],
  on: boolean
): ReadonlySet<string> {
  const after = new Set(before);
  for (const key of keys) {
    if (on) {
      after.add(key);
    } else {
      after.delete(key);
    }
  }
  return after;
}

interface IBoxProps {
  label: string;
  ids: readonly string[];
  chosen: ReadonlySet<string>;
  choose: (ids: readonly string[], on: boolean) => void;
}

/** A checkbox for several runs: half on where some of them are chosen. */
function Box({ label, ids, chosen, choose }: IBoxProps): JSX.Element {
  const on = ids.filter(id => chosen.has(id)).length;
  const isOn = on > 0 && on === ids.length;
  return (
    <input
      type="checkbox"
      aria-label={label}
      checked={isOn}
      ref={element => {
        if (element) {
          element.indeterminate = on > 0 && !isOn;
        }
      }}
      onChange={() => choose(ids, !isOn)}
    />
  );
}

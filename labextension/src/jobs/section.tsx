import { refreshIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobs, JobAction } from '../data/api';
import type { IHpcClient } from '../tokens';
import { Age, FeedView } from '../ui/feedview';
import { useTick, useWidth } from '../ui/hooks';
import { Problem } from '../ui/problem';
import { VirtualTable } from '../ui/virtualtable';
import { confirmAndAct } from './actions';
import { NameCell, ResourcesCell, StateCell, TimeCell } from './cells';
import { type Shown, tableRows, targetOf } from './rows';

const ROW_HEIGHT = 42;

/** From these widths on there is room for a column of times, and for what a job asked for. */
const MEDIUM = 360;
const WIDE = 560;

export interface IJobsProps {
  client: IHpcClient;
  trans: TranslationBundle;
  openJob: (id: string) => void;
}

/** The user's jobs, waiting, running and finished, and what can be done to them. */
export function JobsSection(props: IJobsProps): JSX.Element {
  const { client, trans } = props;
  return (
    <FeedView feed={client.jobs} trans={trans}>
      {jobs => <Jobs jobs={jobs} {...props} />}
    </FeedView>
  );
}

function Jobs(props: IJobsProps & { jobs: IJobs }): JSX.Element {
  const { client, trans, jobs, openJob } = props;
  const [shown, setShown] = React.useState<Shown>('queue');
  const [filter, setFilter] = React.useState('');
  const [open, toggle] = useSet();
  const [selected, select, setSelected] = useSet();
  const [ref, width] = useWidth<HTMLDivElement>();
  useTick(30_000);

  const rows = React.useMemo(
    () => tableRows(jobs, shown, filter, open),
    [jobs, shown, filter, open]
  );
  const chosen = rows.filter(row => selected.has(row.key));
  const mayAct = client.session.value?.features.job_actions ?? true;
  const actionable = shown === 'queue' && mayAct;
  const withTime = width >= MEDIUM;
  const wide = width >= WIDE;
  const now = client.now();

  const act = (action: JobAction): void => {
    const targets = chosen.map(row => ({
      target: targetOf(row),
      name: row.kind === 'group' ? row.name : row.job.name
    }));
    void confirmAndAct(client, action, targets, trans).then(done => {
      if (done) {
        setSelected(new Set());
      }
    });
  };

  return (
    <div className="jp-Hpc-jobs" ref={ref}>
      <div className="jp-Hpc-toolbar" role="group">
        <ShownButton value="queue" {...{ shown, setShown }}>
          {trans.__('Queue (%1)', jobs.jobs.length)}
        </ShownButton>
        <ShownButton value="finished" {...{ shown, setShown }}>
          {trans.__('Finished (%1)', jobs.finished.jobs.length)}
        </ShownButton>
      </div>
      <div className="jp-Hpc-toolbar">
        <input
          type="search"
          className="jp-mod-styled jp-Hpc-filter"
          placeholder={trans.__('Filter by name, id, state…')}
          aria-label={trans.__('Filter jobs')}
          value={filter}
          onChange={event => setFilter(event.target.value)}
        />
        <button
          className="jp-Hpc-iconbutton"
          onClick={() => void client.refreshJobs()}
          aria-label={trans.__('Ask Slurm now')}
          title={trans.__('Ask Slurm now')}
        >
          <refreshIcon.react tag="span" />
        </button>
      </div>
      {actionable && chosen.length > 0 && (
        <Actions count={chosen.length} act={act} trans={trans} />
      )}
      {shown === 'finished' && jobs.finished.problem && (
        <Problem problem={jobs.finished.problem} />
      )}
      {rows.length === 0 ? (
        <p className="jp-Hpc-quiet">
          {filter
            ? trans.__('No job matches the filter.')
            : shown === 'queue'
              ? trans.__('You have no job in the queue.')
              : trans.__('No job of yours has finished lately.')}
        </p>
      ) : (
        <VirtualTable
          label={trans.__('Jobs')}
          rows={rows}
          rowHeight={ROW_HEIGHT}
          columns={columnsOf({ actionable, withTime, wide }, trans)}
          keyOf={row => row.key}
          classOf={row => (selected.has(row.key) ? 'jp-mod-selected' : '')}
        >
          {row => (
            <>
              {actionable && (
                <td>
                  <input
                    type="checkbox"
                    aria-label={trans.__('Select job %1', targetOf(row))}
                    checked={selected.has(row.key)}
                    onChange={() => select(row.key)}
                  />
                </td>
              )}
              <NameCell row={row} open={openJob} {...{ toggle, trans }} />
              <StateCell {...{ row, now, trans }} withTime={!withTime} />
              {wide && <ResourcesCell row={row} trans={trans} />}
              {withTime && <TimeCell {...{ row, now, trans }} />}
            </>
          )}
        </VirtualTable>
      )}
      <Age
        feed={client.jobs}
        dated={shown === 'finished' ? jobs.finished : jobs}
        trans={trans}
      />
    </div>
  );
}

/** A set of keys with a function that adds or removes one, and one that replaces all. */
function useSet(): [
  ReadonlySet<string>,
  (key: string) => void,
  (keys: ReadonlySet<string>) => void
] {
  const [keys, setKeys] = React.useState<ReadonlySet<string>>(new Set());
  const toggle = (key: string): void => {
    const changed = new Set(keys);
    if (!changed.delete(key)) {
      changed.add(key);
    }
    setKeys(changed);
  };
  return [keys, toggle, setKeys];
}

function columnsOf(
  has: { actionable: boolean; withTime: boolean; wide: boolean },
  trans: TranslationBundle
): { key: string; title: string; className: string }[] {
  const columns = [
    ...(has.actionable ? [{ key: 'choice', title: '' }] : []),
    { key: 'name', title: trans.__('Job') },
    { key: 'state', title: trans.__('State') },
    ...(has.wide ? [{ key: 'resources', title: trans.__('Resources') }] : []),
    ...(has.withTime ? [{ key: 'time', title: trans.__('Time') }] : [])
  ];
  return columns.map(column => ({
    ...column,
    className: `jp-Hpc-column-${column.key}`
  }));
}

interface IShownProps {
  value: Shown;
  shown: Shown;
  setShown: (shown: Shown) => void;
  children: React.ReactNode;
}

function ShownButton(props: IShownProps): JSX.Element {
  const { value, shown, setShown, children } = props;
  return (
    <button
      className="jp-Hpc-choice"
      aria-pressed={shown === value}
      onClick={() => setShown(value)}
    >
      {children}
    </button>
  );
}

interface IActionsProps {
  count: number;
  act: (action: JobAction) => void;
  trans: TranslationBundle;
}

function Actions({ count, act, trans }: IActionsProps): JSX.Element {
  const labels: [JobAction, string][] = [
    ['cancel', trans.__('Cancel')],
    ['hold', trans.__('Hold')],
    ['release', trans.__('Release')],
    ['requeue', trans.__('Requeue')]
  ];
  return (
    <div
      className="jp-Hpc-toolbar"
      role="group"
      aria-label={trans.__('Actions on the selected jobs')}
    >
      <span>{trans._n('%1 selected', '%1 selected', count)}</span>
      {labels.map(([action, label]) => (
        <button
          key={action}
          className="jp-Hpc-choice"
          onClick={() => act(action)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

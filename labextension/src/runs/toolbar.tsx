import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IMetric, ISubmit } from '../data/api';
import { nameOf } from '../ui/state';
import { type IFilter, NO_FILTER, RUN_WORDS } from './rows';

const DAY_SECONDS = 86_400;

export interface IShown {
  filter: IFilter;
  /** Whether the runs of a sweep stand together in one line. */
  grouped: boolean;
  /** The name of the number that is shown. */
  metric: string;
}

interface IFiltersProps {
  shown: IShown;
  setShown: (shown: IShown) => void;
  submits: readonly ISubmit[];
  metrics: readonly IMetric[];
  now: number;
  trans: TranslationBundle;
}

/** What narrows the table down. */
export function Filters(props: IFiltersProps): JSX.Element {
  const { shown, setShown, submits, metrics, now, trans } = props;
  const { filter } = shown;
  const set = (change: Partial<IFilter>): void =>
    setShown({ ...shown, filter: { ...filter, ...change } });
  const notebooks = [...new Set(submits.map(each => each.notebook))].sort();
  const [days, setDays] = React.useState('');
  return (
    <div className="jp-Hpc-toolbar" role="search">
      <Choice
        label={trans.__('Notebook')}
        value={filter.notebook}
        options={[
          ['', trans.__('All notebooks')],
          ...notebooks.filter(Boolean).map(name => [name, name] as const)
        ]}
        choose={notebook => set({ notebook })}
      />
      <Choice
        label={trans.__('State')}
        value={filter.state}
        options={[
          ['', trans.__('All states')],
          ...RUN_WORDS.map(
            word =>
              [
                word,
                word === 'unknown' ? trans.__('unknown') : nameOf(word, trans)
              ] as const
          )
        ]}
        choose={state => set({ state })}
      />
      <Choice
        label={trans.__('Since')}
        value={days}
        options={[
          ['', trans.__('Any time')],
          ['1', trans.__('Last day')],
          ['7', trans.__('Last week')],
          ['30', trans.__('Last month')]
        ]}
        choose={value => {
          setDays(value);
          set({ since: value ? now - Number(value) * DAY_SECONDS : 0 });
        }}
      />
      <input
        type="search"
        className="jp-mod-styled jp-Hpc-filter"
        placeholder={trans.__('Search by name, id, parameter…')}
        aria-label={trans.__('Search runs')}
        value={filter.text}
        onChange={event => set({ text: event.target.value })}
      />
      {metrics.length > 1 && (
        <Choice
          label={trans.__('Number that is shown')}
          value={shown.metric || metrics[0].name}
          options={metrics.map(({ name }) => [name, name] as const)}
          choose={metric => setShown({ ...shown, metric })}
        />
      )}
      <button
        className="jp-Hpc-choice"
        aria-pressed={shown.grouped}
        title={trans.__('One line for each sweep, which opens')}
        onClick={() => setShown({ ...shown, grouped: !shown.grouped })}
      >
        {trans.__('Group sweeps')}
      </button>
      {JSON.stringify(filter) !== JSON.stringify(NO_FILTER) && (
        <button
          className="jp-Hpc-choice"
          onClick={() => {
            setDays('');
            setShown({ ...shown, filter: NO_FILTER });
          }}
        >
          {trans.__('Show all')}
        </button>
      )}
    </div>
  );
}

interface IChoiceProps {
  label: string;
  value: string;
  options: readonly (readonly [string, string])[];
  choose: (value: string) => void;
}

function Choice({ label, value, options, choose }: IChoiceProps): JSX.Element {
  return (
    <select
      className="jp-Hpc-select"
      aria-label={label}
      value={value}
      onChange={event => choose(event.target.value)}
    >
      {options.map(([key, word]) => (
        <option key={key} value={key}>
          {word}
        </option>
      ))}
    </select>
  );
}

export interface IActionsProps {
  /** How many runs are chosen, and how many of them have a folder. */
  chosen: number;
  present: number;
  mayDelete: boolean;
  busy: boolean;
  compare: () => void;
  again: () => void;
  download: () => void;
  remove: () => void;
  trans: TranslationBundle;
}

/** What can be done with the chosen runs; a button that cannot be used says why. */
export function Actions(props: IActionsProps): JSX.Element {
  const { chosen, present, mayDelete, busy, trans } = props;
  const none = trans.__('Choose runs first.');
  const one = trans.__('Choose one run.');
  const buttons: [string, () => void, string][] = [
    [
      trans.__('Compare'),
      props.compare,
      present < 2 ? trans.__('Choose two runs or more.') : ''
    ],
    [trans.__('Run again…'), props.again, present === 1 ? '' : one],
    [trans.__('Download'), props.download, present ? '' : none]
  ];
  if (mayDelete) {
    buttons.push([trans.__('Delete…'), props.remove, chosen ? '' : none]);
  }
  return (
    <div
      className="jp-Hpc-toolbar"
      role="group"
      aria-label={trans.__('Actions on the chosen runs')}
    >
      <span aria-live="polite">
        {trans._n('%1 run chosen', '%1 runs chosen', chosen)}
      </span>
      {buttons.map(([label, act, why]) => (
        <button
          key={label}
          className="jp-Hpc-choice"
          // Still found by Tab, so that its reason can be heard.
          aria-disabled={busy || Boolean(why)}
          title={why || undefined}
          onClick={() => {
            if (!busy && !why) {
              act();
            }
          }}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IBatchPreview } from '../data/api';
import { formatTime } from '../ui/format';
import { Problem } from '../ui/problem';
import { Scrolled } from '../ui/scrolled';
import { Tabs } from '../ui/tabs';
import { Changes } from './changes';
import { Findings } from './findings';
import { CellLink, Executions } from './links';
import type { BatchModel } from './model';
import { Proposed } from './proposal';
import { otherProblems } from './problems';

interface IPreviewProps {
  model: BatchModel;
  /** Leave the dialog for this cell, counted from 1. */
  showCell: (cell: number) => void;
  trans: TranslationBundle;
}

/** What the choices lead to: when it could start, the script, the job, each change. */
export function Preview(props: IPreviewProps): JSX.Element {
  const { model, trans } = props;
  const { preview, problem, busy } = model;
  const again = (
    <button className="jp-Hpc-link" onClick={() => void model.refresh()}>
      {trans.__('Check again')}
    </button>
  );
  if (!preview) {
    return problem ? (
      <div className="jp-Hpc-preview">
        <Problem problem={problem} />
        {again}
      </div>
    ) : (
      <p className="jp-Hpc-preview jp-Hpc-quiet">
        {model.isScript
          ? trans.__('Reading the script…')
          : trans.__('Converting the notebook…')}
      </p>
    );
  }
  const others = otherProblems(model);
  const failed = problem ? [problem, ...others] : others;
  const changes = preview.changes.length + preview.notices.length;
  return (
    <Executions.Provider value={preview.executions}>
      <div className="jp-Hpc-preview">
        <Outlook model={model} preview={preview} trans={trans} />
        {failed.map(each => (
          <Problem key={each.message} problem={each} />
        ))}
        {failed.length > 0 && busy === null && again}
        {preview.overwritten.length + preview.added_to.length > 0 && (
          <Overwritten model={model} preview={preview} trans={trans} />
        )}
        <Refusals {...props} preview={preview} />
        <Findings {...props} findings={preview.findings} />
        <Proposed {...props} proposal={preview.proposal} />
        <Tabs
          label={trans.__('Preview')}
          tabs={[
            {
              id: 'script',
              title: trans.__('Script'),
              content: (
                <Code
                  text={preview.script}
                  label={trans.__('Script')}
                  trans={trans}
                />
              )
            },
            {
              id: 'job',
              title: trans.__('Job'),
              content: (
                <Code
                  text={preview.sbatch}
                  label={trans.__('Job')}
                  trans={trans}
                />
              )
            },
            ...(model.isScript
              ? []
              : [
                  {
                    id: 'changes',
                    title: trans.__('Changes (%1)', changes),
                    content: <Changes {...props} preview={preview} />
                  }
                ])
          ]}
        />
        <Verify {...props} />
      </div>
    </Executions.Provider>
  );
}

interface IOutlookProps {
  model: BatchModel;
  preview: IBatchPreview;
  trans: TranslationBundle;
}

/** When it could start, and what it costs, in one line. */
function Outlook({ model, preview, trans }: IOutlookProps): JSX.Element {
  const { estimated_start, estimated_nodes, cost, runs } = preview;
  const start =
    estimated_start !== null &&
    ((model.wait ?? 0) < 60
      ? trans.__('Could start at once on %1 (an estimate)', estimated_nodes)
      : trans.__(
          'Could start %1 on %2 (an estimate)',
          formatTime(estimated_start),
          estimated_nodes
        ));
  const parts = [
    start,
    runs > 1 && trans.__('%1 runs', runs),
    cost &&
      (model.isMeasured('time')
        ? trans.__('costs at most %1, by the measured time', cost)
        : trans.__('costs at most %1', cost))
  ].filter(Boolean);
  const busy =
    model.busy === 'submit' ? trans.__('Submitting…') : trans.__('Checking…');
  return (
    <p className="jp-Hpc-outlook" role="status">
      {model.busy && model.busy !== 'verify'
        ? busy
        : parts.join(' · ') || whyNot(model, trans)}
    </p>
  );
}

/** What stands in the way of a submit, first of all. */
function whyNot(model: BatchModel, trans: TranslationBundle): string {
  const first = model.problem ?? model.preview?.problems[0];
  return first
    ? trans.__('Not ready to be submitted: %1', first.message)
    : trans.__('Not ready to be submitted');
}

/** Files of the notebook's folder that the job would write, and the way to keep them. */
function Overwritten({ model, preview, trans }: IOutlookProps): JSX.Element {
  return (
    <p className="jp-Hpc-overwritten">
      {preview.overwritten.length > 0 && (
        <>
          {trans.__(
            'Will be overwritten: %1.',
            preview.overwritten.join(', ')
          )}{' '}
        </>
      )}
      {preview.added_to.length > 0 && (
        <>
          {trans.__(
            'Will be appended to: %1.',
            preview.added_to.join(', ')
          )}{' '}
        </>
      )}
      <button
        className="jp-Hpc-link"
        onClick={() => model.change({ isolate: true })}
      >
        {trans.__('Work in a new folder instead')}
      </button>
    </p>
  );
}

interface IPartProps extends IPreviewProps {
  preview: IBatchPreview;
}

/** Why it cannot become a script, each reason with the way to its cell. */
function Refusals(props: IPartProps): JSX.Element | null {
  const { model, preview, trans } = props;
  if (preview.ok) {
    return null;
  }
  return (
    <div className="jp-Hpc-problem" role="alert">
      <strong>
        {trans.__(
          'The notebook cannot become a script without changing what it does:'
        )}
      </strong>
      <ul>
        {preview.refusals.map((refusal, index) => (
          <li key={index}>
            <CellLink {...props} {...refusal} /> {refusal.reason} {refusal.hint}
          </li>
        ))}
      </ul>
      <button
        className="jp-Hpc-link"
        onClick={() => model.change({ mode: 'notebook' })}
      >
        {trans.__('Run it as an executed notebook instead')}
      </button>
    </div>
  );
}

interface ICodeProps {
  text: string;
  label: string;
  trans: TranslationBundle;
}

function Code({ text, label, trans }: ICodeProps): JSX.Element {
  return text ? (
    <Scrolled className="jp-Hpc-script" label={label}>
      {text}
    </Scrolled>
  ) : (
    <p className="jp-Hpc-quiet">{trans.__('There is nothing to show yet.')}</p>
  );
}

/** The tick that lets notebook and script run side by side, and the outcome. */
function Verify({ model, showCell, trans }: IPreviewProps): JSX.Element | null {
  const { preview, verification, busy } = model;
  if (!preview?.ok || preview.mode !== 'script' || model.isScript) {
    return null;
  }
  const isRunning = busy === 'verify';
  return (
    <div className="jp-Hpc-verify">
      <label className="jp-Hpc-tick">
        <input
          type="checkbox"
          checked={isRunning || verification !== null}
          disabled={busy !== null}
          onChange={() => void model.verify()}
        />
        {trans.__(
          'Run notebook and script here on a small budget and compare them'
        )}
      </label>
      <div role="status">
        {isRunning && trans.__('Running both; this can take minutes…')}
        {!isRunning && verification?.message}
      </div>
      {!isRunning && verification && verification.differences.length > 0 && (
        <ul>
          {verification.differences.map(({ cell, what }, index) => (
            <li key={index}>
              <CellLink {...{ cell, showCell, trans }} /> {what}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

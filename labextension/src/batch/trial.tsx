import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ITrial } from '../data/api';
import { formatBytes, formatSpan } from '../ui/format';
import { Field, Group } from './fields';
import type { BatchModel } from './model';

interface ITrialProps {
  model: BatchModel;
  trans: TranslationBundle;
}

/** The button that runs a few epochs here, and what they say to time and memory. */
export function TrialGroup({ model, trans }: ITrialProps): JSX.Element | null {
  const { choices, preview, trial } = model;
  if (model.isScript || choices.mode !== 'script' || !preview?.ok) {
    return null;
  }
  const { wish, problem, isRunning } = trial;
  return (
    <Group title={trans.__('Trial')}>
      <Field
        label={trans.__('Epochs to try')}
        value={wish.epochs}
        numeric
        placeholder="2"
        onChange={epochs => trial.setWish({ epochs })}
      />
      <Field
        label={trans.__('Minutes at most')}
        value={wish.minutes}
        numeric
        placeholder="10"
        onChange={minutes => trial.setWish({ minutes })}
      />
      <div className="jp-Hpc-trial jp-Hpc-wide">
        {isRunning ? (
          <button
            className="jp-Button jp-mod-styled jp-mod-reject"
            disabled={trial.isEnding || !trial.trial}
            onClick={() => void trial.end()}
          >
            {trial.isEnding ? trans.__('Ending…') : trans.__('End the trial')}
          </button>
        ) : (
          <button
            className="jp-Button jp-mod-styled"
            disabled={model.busy !== null}
            onClick={() => void trial.start()}
          >
            {trans.__('Try it')}
          </button>
        )}{' '}
        <span className="jp-Hpc-quiet">
          {isRunning
            ? trans.__('It ends with this dialog.')
            : trans.__(
                'Runs them here, in a folder of its own, and fills time, memory and parts.'
              )}
        </span>
        {isRunning && <HowFar trial={trial.trial} trans={trans} />}
        {problem && (
          <div className="jp-Hpc-problem" role="alert">
            <strong>{problem.message.split('\n', 1)[0]}</strong>
            {problem.message.includes('\n') && (
              <pre className="jp-Hpc-lines">
                {problem.message.slice(problem.message.indexOf('\n') + 1)}
              </pre>
            )}
            {problem.hint && <p>{problem.hint}</p>}
          </div>
        )}
        {trial.trial?.state === 'ended' && !problem && (
          <p role="status">
            {trans.__('The trial was ended; nothing of it runs any more.')}
          </p>
        )}
        {trial.trial?.result && (
          <Outcome model={model} trial={trial.trial} trans={trans} />
        )}
      </div>
    </Group>
  );
}

function HowFar(props: {
  trial: ITrial | null;
  trans: TranslationBundle;
}): JSX.Element {
  const { trans } = props;
  const progress = props.trial?.progress;
  if (!progress || progress.run === 0) {
    return (
      <p role="status">{trans.__('Setting up the environment of the job…')}</p>
    );
  }
  const { run, runs, epochs, epoch, limit } = progress;
  const parts = [
    trans._n(
      'Run %2 of %3, with %1 epoch',
      'Run %2 of %3, with %1 epochs',
      epochs,
      run,
      runs
    ),
    epoch !== null && trans.__('it says epoch %1', epoch),
    trans.__(
      '%1 of at most %2',
      formatSpan(progress.seconds, trans),
      formatSpan(limit, trans)
    ),
    formatBytes(progress.memory),
    progress.gpu_memory > 0 &&
      trans.__('%1 on the GPU', formatBytes(progress.gpu_memory))
  ];
  return (
    <>
      <progress
        aria-label={trans.__('How far the trial is')}
        max={limit}
        value={Math.min(limit, progress.seconds)}
      />
      <p role="status">{parts.filter(Boolean).join(' · ')}</p>
      {progress.line && (
        <pre className="jp-Hpc-trialLine jp-Hpc-quiet">{progress.line}</pre>
      )}
    </>
  );
}

function Outcome(props: ITrialProps & { trial: ITrial }): JSX.Element {
  const { model, trial, trans } = props;
  const { message, notes } = trial.result!;
  return (
    <div role="status">
      <p>{message}</p>
      {model.trial.isOutdated && (
        <p>
          {trans.__(
            'You have changed the job since; try it again to measure what it is now.'
          )}
        </p>
      )}
      {notes.length > 0 && (
        <ul>
          {notes.map(note => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {model.canUndoTrial && (
        <button
          className="jp-Hpc-link"
          type="button"
          onClick={() => model.undoTrial()}
        >
          {trans.__('Take what it filled back')}
        </button>
      )}
    </div>
  );
}

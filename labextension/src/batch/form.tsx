import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Mode, Python } from '../data/api';
import { goingOn, type IChoices, needsValue, type Until } from './choices';
import { Field, Group } from './fields';
import type { BatchModel } from './model';
import { Parameters } from './parameters';
import { problemOf } from './problems';
import { Resources } from './resources';
import { TrialGroup } from './trial';

interface IFormProps {
  model: BatchModel;
  trans: TranslationBundle;
}

/** Everything that can be chosen for the job. */
export function Form({ model, trans }: IFormProps): JSX.Element {
  const { choices } = model;
  const change = (changes: Partial<IChoices>): void => model.change(changes);
  return (
    <form className="jp-Hpc-form" onSubmit={event => event.preventDefault()}>
      <Resources model={model} trans={trans} />
      <TrialGroup model={model} trans={trans} />
      {model.isScript && <ScriptGroup model={model} trans={trans} />}
      <Parameters model={model} trans={trans} />
      <Group
        title={trans.__('Data')}
        folded={!choices.stageIn && !choices.stageOut && !choices.isolate}
      >
        <label className="jp-Hpc-tick">
          <input
            type="checkbox"
            checked={choices.isolate}
            onChange={event => change({ isolate: event.target.checked })}
          />
          {trans.__('Work in a new folder; runs of a sweep always do')}
        </label>
        <Field
          label={trans.__('Copy to the disk of the node first')}
          value={choices.stageIn}
          rows={2}
          placeholder={trans.__('such as %1', 'data/train')}
          note={trans.__('One path per line; folders travel as one archive.')}
          onChange={stageIn => change({ stageIn })}
        />
        <Field
          label={trans.__('Bring back')}
          value={choices.stageOut}
          rows={2}
          placeholder={trans.__('everything that is new or changed')}
          note={trans.__('One path per line; only used with a copy.')}
          onChange={stageOut => change({ stageOut })}
        />
      </Group>
      <EnvironmentGroup model={model} trans={trans} />
      <Group
        title={trans.__('How it runs')}
        folded={
          choices.mode === 'script' &&
          !choices.skipInvalid &&
          !choices.after &&
          !choices.chain &&
          !choices.requeue &&
          !choices.notify
        }
      >
        {!model.isScript && <NotebookFields model={model} trans={trans} />}
        <Field
          label={trans.__('Chain of runs')}
          value={choices.chain}
          problem={problemOf(model, 'chain', trans)}
          numeric
          placeholder={trans.__('one run')}
          note={
            model.isMeasured('chain')
              ? choices.chain
                ? trans.__(
                    'measured: so many parts of %1',
                    choices.request.time
                  )
                : trans.__('measured: one run holds all epochs')
              : trans.__('Each goes on where the last one ended.')
          }
          onChange={chain => change({ chain })}
        />
        <UntilField model={model} trans={trans} />
        <Field
          label={trans.__('Start after jobs')}
          value={choices.after}
          problem={problemOf(model, 'after', trans)}
          placeholder={trans.__('such as %1', '4711')}
          note={trans.__('It starts once they have ended well.')}
          onChange={after => change({ after })}
        />
        <label className="jp-Hpc-tick">
          <input
            type="checkbox"
            checked={choices.requeue}
            onChange={event => change({ requeue: event.target.checked })}
          />
          {trans.__('Go on after each time limit or failure of the node')}
        </label>
        <label className="jp-Hpc-tick">
          <input
            type="checkbox"
            checked={choices.notify}
            onChange={event => change({ notify: event.target.checked })}
          />
          {trans.__('Tell me when it ends')}
        </label>
      </Group>
    </form>
  );
}

/** What only a notebook can be asked for. */
function NotebookFields({ model, trans }: IFormProps): JSX.Element {
  const { choices } = model;
  return (
    <>
      <Field
        label={trans.__('Run it as')}
        value={choices.mode}
        options={[
          { value: 'script', label: trans.__('Python script') },
          { value: 'notebook', label: trans.__('Executed notebook') }
        ]}
        onChange={mode => model.change({ mode: mode as Mode })}
      />
      {choices.mode === 'script' && (
        <label className="jp-Hpc-tick">
          <input
            type="checkbox"
            checked={choices.skipInvalid}
            onChange={event =>
              model.change({ skipInvalid: event.target.checked })
            }
          />
          {trans.__('Leave out cells that are not Python')}
        </label>
      )}
    </>
  );
}

/** The words of a script, and what runs after it in the same job. */
function ScriptGroup({ model, trans }: IFormProps): JSX.Element {
  const { choices } = model;
  return (
    <Group title={trans.__('Script')}>
      <Field
        label={trans.__('Arguments')}
        value={choices.arguments}
        placeholder={trans.__('such as %1', '--epochs 3')}
        onChange={words => model.change({ arguments: words })}
      />
      <Field
        label={trans.__('Then run')}
        value={choices.then}
        rows={2}
        placeholder={trans.__('such as %1', 'predict.py')}
        note={trans.__(
          'Scripts of the same folder, one per line; each starts if the one before ended well.'
        )}
        onChange={then => model.change({ then })}
      />
    </Group>
  );
}

/** What ends a chain or a job that is put back; shown only for these. */
function UntilField({ model, trans }: IFormProps): JSX.Element | null {
  const { choices, preview } = model;
  if (!choices.chain && !choices.requeue) {
    return null;
  }
  const words: Record<Exclude<Until, ''>, string> = {
    done: trans.__('there is a file DONE'),
    exit: trans.__('the program ends with code 0'),
    all: trans.__('all parts have run')
  };
  const seen = words[preview?.until ?? 'exit'];
  return (
    <Field
      label={trans.__('Go on until')}
      value={choices.until}
      options={[
        { value: '', label: trans.__('As the notebook does: %1', seen) },
        ...Object.entries(words).map(([value, label]) => ({ value, label }))
      ]}
      note={trans.__('Exit code 85 asks for the next part in each case.')}
      onChange={until => model.change({ until: until as Until })}
    />
  );
}

function EnvironmentGroup({ model, trans }: IFormProps): JSX.Element {
  const { choices, preview } = model;
  const { python, pythonValue, modules } = choices;
  const words: Record<Python, string> = {
    default: trans.__('As the cluster is set up'),
    server: trans.__('The Python of this Jupyter'),
    conda: trans.__('A conda environment'),
    venv: trans.__('A virtual environment'),
    build: trans.__('Built in the job from a requirements file'),
    container: trans.__('An Apptainer image'),
    none: trans.__('None: the python3 of the node')
  };
  const values: Partial<Record<Python, string>> = {
    conda: trans.__('Name or path'),
    venv: trans.__('Its folder'),
    build: trans.__('The requirements file'),
    container: trans.__('The image')
  };
  return (
    <Group
      title={trans.__('Environment')}
      folded={python === 'default' && !modules}
    >
      <Field
        label={trans.__('Python')}
        value={python}
        options={Object.entries(words).map(([value, label]) => ({
          value,
          label
        }))}
        note={python === 'default' ? preview?.choices.environment : undefined}
        onChange={value => model.change({ python: value as Python })}
      />
      {needsValue(python) && (
        <Field
          label={values[python] ?? ''}
          value={pythonValue}
          onChange={value => model.change({ pythonValue: value })}
        />
      )}
      <Field
        label={trans.__('Modules')}
        value={modules}
        placeholder={trans.__('such as %1', 'cuda/12.1')}
        suggestions={goingOn(modules, model.modules)}
        onFocus={() => void model.askModules()}
        onChange={value => model.change({ modules: value })}
      />
    </Group>
  );
}

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IParameter } from '../data/api';
import { Field, Group } from './fields';
import type { BatchModel } from './model';
import { problemOf } from './problems';

interface IParametersProps {
  model: BatchModel;
  trans: TranslationBundle;
}

/** The values that were found in the notebook; several of one make a sweep. */
export function Parameters({
  model,
  trans
}: IParametersProps): JSX.Element | null {
  const { choices, preview } = model;
  if (!preview?.parameters.length) {
    return null;
  }
  const change = (name: string, value: string): void =>
    model.change({ parameters: { ...choices.parameters, [name]: value } });
  const isSwept = preview.runs > 1 && !choices.chain;
  return (
    <Group title={trans.__('Parameters')}>
      <p className="jp-Hpc-quiet jp-Hpc-wide">
        {trans.__('Several values, as in 0.1, 0.01, make one run each.')}
      </p>
      {preview.parameters.map(parameter =>
        parameter.kind === 'secret' ? (
          <p key={parameter.name} className="jp-Hpc-wide">
            {trans.__(
              '%1 is a secret: the job takes it from the environment of this server.',
              parameter.name
            )}
          </p>
        ) : (
          <Field
            key={parameter.name}
            label={parameter.name}
            value={choices.parameters[parameter.name] ?? ''}
            placeholder={parameter.default}
            note={noteOf(parameter, trans)}
            problem={problemOf(model, `parameters.${parameter.name}`, trans)}
            onChange={value => change(parameter.name, value)}
          />
        )
      )}
      {isSwept && (
        <Field
          label={trans.__('Runs at a time')}
          value={choices.atOnce}
          numeric
          placeholder={trans.__('as many as fit')}
          problem={problemOf(model, 'at_once', trans)}
          onChange={atOnce => model.change({ atOnce })}
        />
      )}
    </Group>
  );
}

function noteOf(parameter: IParameter, trans: TranslationBundle): string {
  if (parameter.kind === 'question') {
    return trans.__('cell %1 asks for this', parameter.cell);
  }
  return parameter.where
    ? trans.__('cell %1, %2', parameter.cell, parameter.where)
    : trans.__('cell %1', parameter.cell);
}

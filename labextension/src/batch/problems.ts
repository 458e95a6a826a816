import type { TranslationBundle } from '@jupyterlab/translation';

import type { IFinding, IProblem } from '../data/api';
import { type IChoices, REQUEST_KEYS } from './choices';
import type { BatchModel } from './model';

/** Resources that are whole numbers, and the least of each. */
const COUNTS = { nodes: 1, tasks: 1, tasks_per_node: 1, gpus: 0 } as const;

/** Fields beside the resources, as the server names what is wrong with them. */
const OTHERS = ['chain', 'at_once', 'after'];

type Known = Pick<BatchModel, 'choices' | 'preview'>;

/** Whether a number is none, so that the server need not be asked. */
export function hasOddNumber(choices: IChoices): boolean {
  return oddNumbers(choices).length > 0;
}

/** What belongs beside a field: that a number is none, else what the server says to it. */
export function problemOf(
  { choices, preview }: Known,
  field: string,
  trans: TranslationBundle
): IProblem | null {
  const odd = oddNumbers(choices).find(each => each.field === field);
  if (odd) {
    return {
      message: trans.__('This is no whole number.'),
      hint: trans.__('The least is %1.', odd.least)
    };
  }
  return preview?.problems.find(({ option }) => option === field) ?? null;
}

/** The problems that stand beside no field. */
export function otherProblems({ preview }: Known): IFinding[] {
  const fields = new Set<string>([
    ...REQUEST_KEYS,
    ...OTHERS,
    ...(preview?.parameters ?? []).map(({ name }) => `parameters.${name}`)
  ]);
  return (preview?.problems ?? []).filter(({ option }) => !fields.has(option));
}

function oddNumbers(choices: IChoices): { field: string; least: number }[] {
  const { request, chain, atOnce } = choices;
  return [
    ...Object.entries(COUNTS).map(([field, least]) => ({
      field,
      least,
      text: request[field as keyof typeof COUNTS]
    })),
    { field: 'chain', least: 2, text: chain },
    { field: 'at_once', least: 1, text: atOnce }
  ].filter(
    ({ text, least }) =>
      text.trim() !== '' &&
      !(/^\s*\d{1,9}\s*$/.test(text) && Number(text) >= least)
  );
}

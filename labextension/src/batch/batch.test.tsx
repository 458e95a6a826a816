import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IBatchPreview } from '../data/api';
import { ApiError } from '../data/request';
import { aPreview, FakeBatch } from '../testing/batch';
import { settled } from '../testing/server';
import { fromStored, toRequest } from './choices';
import { BatchDialog } from './dialog';
import { Form } from './form';
import { readChoices, writeChoices } from './metadata';
import { BatchModel } from './model';
import { Preview } from './preview';

const trans = nullTranslator.load('jupyter_hpc');

let server: FakeBatch;
let model: BatchModel;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeBatch();
  model = new BatchModel(server, 'a/train.ipynb', fromStored(undefined));
});

afterEach(() => {
  model.dispose();
  cleanup();
  vi.useRealTimers();
});

describe('what was chosen', () => {
  it('is stored short and read again', () => {
    const stored = {
      mode: 'notebook',
      request: { partition: 'gpu', extra: ['--exclusive'] },
      parameters: { lr: '0.1,0.2' },
      at_once: '2',
      chain: '3',
      until: 'done',
      requeue: true,
      notify: true,
      isolate: true,
      stage_in: ['data', 'more'],
      environment: { python: 'venv', value: '/v', modules: ['cuda', 'gcc'] }
    };
    expect(toRequest(fromStored(stored))).toEqual(stored);
    expect(toRequest(fromStored(undefined))).toEqual({});
  });

  it.each([
    [null],
    ['text'],
    [[1]],
    [{ request: [], parameters: 3, environment: { python: 'rm' } }],
    [{ request: { time: { a: 1 } }, mode: 'other', requeue: 'yes' }]
  ])('is not trusted: %j', stored =>
    expect(toRequest(fromStored(stored))).toEqual({})
  );

  it('lives in the metadata beside other members', () => {
    const table: Record<string, unknown> = { 'jupyter-hpc': { other: 1 } };
    const metadata = {
      getMetadata: (key: string) => table[key],
      setMetadata: (key: string, value: unknown) => void (table[key] = value)
    };
    expect(readChoices(metadata)).toBeUndefined();
    expect(writeChoices(metadata, { chain: '3' })).toBe(true);
    expect(table['jupyter-hpc']).toEqual({ other: 1, batch: { chain: '3' } });
    expect(writeChoices(metadata, { chain: '3' })).toBe(false);
  });
});

describe('the model', () => {
  it('asks once when the typing pauses', async () => {
    await model.open();
    model.change({ chain: '2' });
    model.change({ chain: '3' });
    expect(server.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(600);
    expect(server.asked).toHaveLength(2);
    expect(server.asked[1]).toEqual({ path: 'a/train.ipynb', chain: '3' });
  });

  it('does not show an answer that was overtaken', async () => {
    const answers: ((preview: IBatchPreview) => void)[] = [];
    server.convert = () => new Promise(resolve => answers.push(resolve));
    const first = model.refresh();
    const second = model.refresh();
    answers[1](aPreview({ cost: 'new' }));
    answers[0](aPreview({ cost: 'old' }));
    await Promise.all([first, second]);
    expect(model.preview?.cost).toBe('new');
  });

  it('submits only what nothing speaks against', async () => {
    expect(await model.submit()).toBeNull();
    server.preview = aPreview({ ok: false });
    await model.refresh();
    expect(await model.submit()).toBeNull();
    server.preview = aPreview();
    await model.refresh();
    expect((await model.submit())?.job_id).toBe('7');
    expect(server.submitted).toHaveLength(1);
  });

  it('keeps the choices and the reason of a refusal', async () => {
    await model.refresh();
    server.refusal = new ApiError('No.', 'Ask for less.', 422);
    model.change({ chain: '2' });
    expect(await model.submit()).toBeNull();
    expect(model.problem).toEqual({ message: 'No.', hint: 'Ask for less.' });
    expect(model.choices.chain).toBe('2');
    await vi.advanceTimersByTimeAsync(600);
    expect(server.asked).toHaveLength(2);
    expect(model.problem?.message).toBe('No.');
    model.change({ chain: '3' });
    expect(model.problem).toBeNull();
  });

  it('sends what was seen, and shows it anew where it has changed', async () => {
    await model.refresh();
    server.refusal = new ApiError('Changed: cell 2.', 'Look.', 409);
    server.preview = aPreview({ seen: ['cell 1:ab', 'cell 2:cd'] });
    expect(await model.submit()).toBeNull();
    expect(server.submitted[0].seen).toEqual(['cell 1:ab']);
    await settled();
    expect(server.asked).toHaveLength(2);
    expect(model.problem?.message).toBe('Changed: cell 2.');
    server.refusal = null;
    expect((await model.submit())?.job_id).toBe('7');
    expect(server.submitted[1].seen).toEqual(['cell 1:ab', 'cell 2:cd']);
  });

  it('does not open the way to a second submit by a late preview', async () => {
    await model.refresh();
    let answer: () => void = () => undefined;
    server.submit = request => {
      server.submitted.push(request);
      return new Promise((_, reject) => {
        answer = () => reject(new ApiError('No.', '', 422));
      });
    };
    model.change({ chain: '2' });
    const first = model.submit();
    await vi.advanceTimersByTimeAsync(600);
    expect(model.busy).toBe('submit');
    expect(model.isReady).toBe(false);
    expect(await model.submit()).toBeNull();
    expect(server.submitted).toHaveLength(1);
    expect(server.asked).toHaveLength(1);
    answer();
    await first;
    await settled();
    expect(server.asked).toHaveLength(2);
    expect(model.problem?.message).toBe('No.');
  });
});

describe('the form', () => {
  it('shows defaults, limits, and what is wrong beside the field', async () => {
    server.preview = aPreview({
      problems: [{ option: 'time', message: 'Too long.', hint: 'Ask for 2 h.' }]
    });
    await model.open();
    render(<Form model={model} trans={trans} />);
    const time = screen.getByLabelText<HTMLInputElement>('Time limit');
    expect(time.placeholder).toBe('01:00:00');
    expect(time.getAttribute('aria-invalid')).toBe('true');
    const about = time.getAttribute('aria-describedby') ?? '';
    expect(document.getElementById(about)?.textContent).toContain('Too long.');
    expect(
      screen.getByText('up to 2 h 00 min, 4 × a100, 1 of 4 nodes wholly free')
    ).toBeTruthy();
    expect(screen.queryByLabelText('TOKEN')).toBeNull();
    expect(screen.getByText(/TOKEN is a secret/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText('lr'), {
      target: { value: '0.1,0.2' }
    });
    expect(model.choices.parameters).toEqual({ lr: '0.1,0.2' });
  });

  it('asks what ends a chain, and shows what the notebook does', async () => {
    server.preview = aPreview({ until: 'done' });
    await model.open();
    const { rerender } = render(<Form model={model} trans={trans} />);
    expect(screen.queryByLabelText('Go on until')).toBeNull();
    model.change({ chain: '3' });
    rerender(<Form model={model} trans={trans} />);
    const field = screen.getByLabelText<HTMLSelectElement>('Go on until');
    expect(field.selectedOptions[0]?.text).toContain('there is a file DONE');
    fireEvent.change(field, { target: { value: 'all' } });
    expect(toRequest(model.choices)).toEqual({ chain: '3', until: 'all' });
  });

  it('proposes modules behind those that are typed already', async () => {
    await model.open();
    const shown = render(<Form model={model} trans={trans} />);
    const field = screen.getByLabelText('Modules');
    expect(server.modules).not.toHaveBeenCalled();
    fireEvent.focus(field);
    fireEvent.focus(field);
    await settled();
    expect(server.modules).toHaveBeenCalledTimes(1);
    model.change({ modules: 'cuda/12.1 PY' });
    shown.rerender(<Form model={model} trans={trans} />);
    const list = field.getAttribute('list') ?? '';
    const proposed = [...(document.getElementById(list)?.children ?? [])];
    expect(proposed.map(each => each.getAttribute('value'))).toEqual([
      'cuda/12.1 python/3.11'
    ]);
  });

  it('asks for modules again where that failed', async () => {
    server.modules.mockRejectedValueOnce(new ApiError('No.', '', 503));
    await model.askModules();
    expect(model.modules).toEqual([]);
    await model.askModules();
    expect(model.modules).toContain('gcc/13');
  });

  it('does not fold a group in which somebody writes', async () => {
    await model.open();
    const { rerender } = render(<Form model={model} trans={trans} />);
    const field = screen.getByLabelText('Bring back');
    const group = field.closest('details')!;
    expect(group.open).toBe(false);
    group.open = true;
    for (const value of ['a', '']) {
      fireEvent.change(field, { target: { value } });
      rerender(<Form model={model} trans={trans} />);
      expect(group.open).toBe(true);
    }
  });

  it('unfolds the group of a problem', async () => {
    await model.open();
    const { rerender } = render(<Form model={model} trans={trans} />);
    const group = screen.getByLabelText('Account').closest('details')!;
    expect(group.open).toBe(false);
    server.preview = aPreview({
      problems: [{ option: 'account', message: 'Not yours.', hint: '' }]
    });
    await model.refresh();
    rerender(<Form model={model} trans={trans} />);
    expect(group.open).toBe(true);
  });
});

describe('the preview', () => {
  it('leads from a refusal to its cell, and to the other mode', async () => {
    const shown: number[] = [];
    const showCell = (cell: number): void => void shown.push(cell);
    server.preview = aPreview({
      ok: false,
      refusals: [{ cell: 4, line: 1, reason: 'Unknown magic.', hint: '' }]
    });
    await model.open();
    render(<Preview {...{ model, showCell, trans }} />);
    fireEvent.click(screen.getByRole('button', { name: 'Cell 4' }));
    expect(shown).toEqual([4]);
    fireEvent.click(screen.getByText(/executed notebook instead/));
    expect(model.choices.mode).toBe('notebook');
  });

  it('says when it could start, how often it runs and what it costs', async () => {
    server.preview = aPreview({ runs: 3, cost: '4 credits' });
    await model.open();
    render(<Preview {...{ model, showCell: () => undefined, trans }} />);
    const [outlook] = screen.getAllByRole('status');
    expect(outlook.textContent).toMatch(
      /^Could start .* on gpu01 \(an estimate\) · 3 runs · costs at most 4 credits$/
    );
  });

  it('shows what was found, and lets errors be set aside', async () => {
    const shown: number[] = [];
    const finding = { check: 'imports', hint: 'Install it.', where: 'cell 2' };
    server.preview = aPreview({
      findings: [
        { ...finding, severity: 'warning', message: 'Maybe.', where: '' },
        { ...finding, severity: 'error', message: 'torch is missing.' }
      ]
    });
    await model.open();
    const showCell = (cell: number): void => void shown.push(cell);
    const { rerender } = render(<Preview {...{ model, showCell, trans }} />);
    const lines = screen.getByLabelText('What was found before the queue');
    expect(lines.textContent).toMatch(/^1 error, 1 warning.*torch.*Maybe/);
    fireEvent.click(screen.getByRole('button', { name: 'Cell 2' }));
    expect(shown).toEqual([2]);
    expect(model.isReady).toBe(false);
    fireEvent.click(screen.getByLabelText('Submit it all the same'));
    rerender(<Preview {...{ model, showCell, trans }} />);
    expect(model.isReady).toBe(true);
    await model.submit();
    expect(server.submitted[0]).toMatchObject({ force: true });
  });

  it('names what will be overwritten, with the way to keep it', async () => {
    server.preview = aPreview({
      overwritten: ['weights.npy', 'log.csv'],
      added_to: ['all.log']
    });
    await model.open();
    render(<Preview {...{ model, showCell: () => undefined, trans }} />);
    screen.getByText(
      /Will be overwritten: weights\.npy, log\.csv\. Will be appended to: all\.log\./
    );
    fireEvent.click(screen.getByText('Work in a new folder instead'));
    expect(model.choices.isolate).toBe(true);
    expect(toRequest(model.choices)).toEqual({ isolate: true });
  });

  it('runs both on a tick and tells the outcome', async () => {
    await model.open();
    server.preview = aPreview({
      verification: {
        equal: true,
        message: 'Equal.',
        differences: [],
        compared: [1],
        not_compared: [],
        overrides: {}
      }
    });
    render(<Preview {...{ model, showCell: () => undefined, trans }} />);
    fireEvent.click(screen.getByRole('checkbox'));
    await settled();
    expect(server.asked[1]).toMatchObject({ verify: true });
    expect(model.verification?.message).toBe('Equal.');
  });
});

describe('the dialog', () => {
  it('opens the way to a submit when the preview is good, and stays after a refusal', async () => {
    const dialog = new BatchDialog(model, trans);
    const submit = (): HTMLButtonElement =>
      dialog.node.querySelector('.jp-Dialog-footer .jp-mod-accept')!;
    const left = dialog.launch();
    await settled();
    expect(submit().disabled).toBe(true);
    await model.open();
    expect(submit().disabled).toBe(false);

    server.refusal = new ApiError('No.', '', 422);
    submit().click();
    await settled();
    expect(dialog.isDisposed).toBe(false);

    server.refusal = null;
    submit().click();
    await left;
    expect(dialog.outcome.job?.job_id).toBe('7');
    expect(model.isDisposed).toBe(true);
  });

  it('is not left by Tab, whatever was drawn after it opened', async () => {
    const dialog = new BatchDialog(model, trans);
    const left = dialog.launch();
    await model.open();
    await settled();
    const reached = [
      ...dialog.node.querySelectorAll<HTMLElement>(
        'button, input, select, textarea, summary, [tabindex]'
      )
    ].filter(
      each => each.tabIndex >= 0 && !(each as HTMLButtonElement).disabled
    );
    const [first, last] = [reached[0], reached[reached.length - 1]];
    expect(last.textContent).toBe('Submit');
    last.focus();
    fireEvent.keyDown(last, { key: 'Tab' });
    expect(document.activeElement).toBe(first);
    fireEvent.keyDown(first, { key: 'Tab', shiftKey: true });
    expect(document.activeElement).toBe(last);
    dialog.reject();
    await left;
  });
});

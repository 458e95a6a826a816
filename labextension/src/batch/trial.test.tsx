import { nullTranslator } from '@jupyterlab/translation';
import {
  cleanup,
  fireEvent,
  render,
  type RenderResult,
  screen
} from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ITrialResult } from '../data/api';
import { ApiError } from '../data/request';
import { aPreview, aTrial, FakeBatch } from '../testing/batch';
import { settled } from '../testing/server';
import { fromStored, toRequest } from './choices';
import { Form } from './form';
import { BatchModel } from './model';
import { Preview } from './preview';

const trans = nullTranslator.load('jupyter_hpc');

let server: FakeBatch;
let model: BatchModel;
let shown: RenderResult;

const result: ITrialResult = {
  time: '00:20:00',
  memory: '5G',
  chain: 3,
  message: 'Trial: 2 epochs.',
  notes: ['One process.'],
  measured: {
    epochs: 2,
    seconds: 30,
    epoch: 10,
    once: 10,
    memory: 3e9,
    gpu_memory: 0
  }
};

const page = (): JSX.Element => (
  <>
    <Form model={model} trans={trans} />
    <Preview {...{ model, showCell: () => undefined, trans }} />
  </>
);

async function later(): Promise<void> {
  await vi.advanceTimersByTimeAsync(1100);
  shown.rerender(page());
}

async function click(name: string): Promise<void> {
  fireEvent.click(screen.getByText(name));
  await settled();
  shown.rerender(page());
}

beforeEach(async () => {
  vi.useFakeTimers();
  server = new FakeBatch();
  const stored = { request: { memory: '9G' } };
  model = new BatchModel(server, 'a/train.ipynb', fromStored(stored));
  await model.open();
  shown = render(page());
});

afterEach(() => {
  model.dispose();
  cleanup();
  vi.useRealTimers();
});

describe('a trial', () => {
  it('shows how far it is, fills the fields, and takes it back', async () => {
    fireEvent.change(screen.getByLabelText('Epochs to try'), {
      target: { value: '4' }
    });
    await click('Try it');
    const request = { memory: '9G' };
    expect(server.trials).toEqual([
      { request: { path: 'a/train.ipynb', request }, epochs: 4 }
    ]);
    screen.getByText(/^Run 1 of 2, with 1 epoch · it says epoch 3 · 12 s of/);
    screen.getByText('epoch 3 loss 0.1');
    expect(screen.queryByText('Try it')).toBeNull();
    server.preview = aPreview({ cost: '4 credits' });
    server.running = aTrial({ state: 'done', result });
    await later();
    expect(toRequest(model.choices)).toEqual({
      request: { time: '00:20:00', memory: '5G' },
      chain: '3'
    });
    expect(screen.getAllByText('measured, with 30 % to spare')).toHaveLength(2);
    screen.getByText('measured: so many parts of 00:20:00');
    screen.getByText('One process.');
    await later();
    screen.getByText(/costs at most 4 credits, by the measured time$/);
    fireEvent.change(screen.getByLabelText('Time limit'), {
      target: { value: '01:00:00' }
    });
    shown.rerender(page());
    expect(screen.getAllByText('measured, with 30 % to spare')).toHaveLength(1);
    await click('Take what it filled back');
    expect(toRequest(model.choices)).toEqual({
      request: { time: '01:00:00', memory: '9G' }
    });
    expect(screen.queryByText('Take what it filled back')).toBeNull();
  });

  it('keeps what a person wrote over a second trial', async () => {
    server.running = aTrial({ state: 'running' });
    for (const time of ['00:20:00', '00:30:00']) {
      await click('Try it');
      server.running = aTrial({ state: 'done', result: { ...result, time } });
      await later();
      server.running = aTrial();
    }
    expect(model.choices.request.time).toBe('00:30:00');
    model.undoTrial();
    expect(toRequest(model.choices)).toEqual({ request: { memory: '9G' } });
  });

  it('empties the parts where one run holds all, and leaves memory to the cluster', async () => {
    model.change({ chain: '4' });
    await click('Try it');
    const one = { ...result, memory: '', chain: null };
    server.running = aTrial({ state: 'done', result: one });
    await later();
    expect(model.choices.chain).toBe('');
    expect(model.choices.request.memory).toBe('9G');
    screen.getByText('measured: one run holds all epochs');
  });

  it('says when it was about something else', async () => {
    await click('Try it');
    server.running = aTrial({ state: 'done', result });
    await later();
    expect(screen.queryByText(/You have changed the job since/)).toBeNull();
    model.change({ parameters: { lr: '1' } });
    shown.rerender(page());
    screen.getByText(/You have changed the job since/);
  });

  it('says why there is none', async () => {
    server.notNow = new ApiError('No epochs.', 'Give --time.', 400);
    await click('Try it');
    screen.getByText('No epochs.');
    screen.getByText('Try it');
    expect(model.trial.isRunning).toBe(false);
    server.notNow = null;
    await click('Try it');
    expect(screen.queryByText('No epochs.')).toBeNull();
  });

  it('shows its last lines when it fails, and fills nothing', async () => {
    await click('Try it');
    const problem = { message: 'It failed.\nlast line', hint: 'Run it.' };
    server.running = aTrial({ state: 'failed', problem });
    await later();
    screen.getByText('It failed.');
    screen.getByText('last line');
    expect(model.canUndoTrial).toBe(false);
    expect(toRequest(model.choices)).toEqual({ request: { memory: '9G' } });
  });

  it('is ended by its button, and with the dialog', async () => {
    await click('Try it');
    await click('End the trial');
    expect(server.ended).toEqual(['a1']);
    screen.getByText(/nothing of it runs any more/);
    server.running = aTrial({ id: 'b2' });
    await click('Try it');
    model.dispose();
    expect(server.ended).toEqual(['a1', 'b2']);
  });

  it('is ended, too, where the dialog was left while it began', async () => {
    fireEvent.click(screen.getByText('Try it'));
    model.dispose();
    await settled();
    expect(server.ended).toEqual(['a1']);
  });

  it('is over when the server was started again', async () => {
    await click('Try it');
    server.running = aTrial({ id: '', state: 'none', progress: null });
    await later();
    screen.getByText(/was started again meanwhile/);
    screen.getByText('Try it');
  });

  it('goes on over a lost connection', async () => {
    await click('Try it');
    const answer = server.trial.bind(server);
    server.trial = () => Promise.reject(new ApiError('No answer.', '', 0));
    await later();
    screen.getByText('No answer.');
    screen.getByText('End the trial');
    server.trial = answer;
    await later();
    expect(screen.queryByText('No answer.')).toBeNull();
  });

  it('is for notebooks that run as scripts', () => {
    model.change({ mode: 'notebook' });
    shown.rerender(page());
    expect(screen.queryByText('Try it')).toBeNull();
  });
});

import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { aPreview, FakeBatch } from '../testing/batch';
import { fromStored } from './choices';
import { Form } from './form';
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

describe('a problem of one field', () => {
  it.each([
    ['Chain of runs', 'many', 'The least is 2.'],
    ['GPUs', '-1', 'The least is 0.'],
    ['Nodes', '1.5', 'The least is 1.']
  ])(
    'says beside %s what is no number, and asks nobody',
    async (label, value, least) => {
      await model.open();
      const { rerender } = render(<Form model={model} trans={trans} />);
      const field = screen.getByLabelText<HTMLInputElement>(label);
      fireEvent.change(field, { target: { value } });
      await vi.advanceTimersByTimeAsync(600);
      rerender(<Form model={model} trans={trans} />);
      const about = field.getAttribute('aria-describedby') ?? '';
      const said = about
        .split(' ')
        .map(id => document.getElementById(id)?.textContent)
        .join(' ');
      expect(said).toContain(`This is no whole number. ${least}`);
      expect(model.isReady).toBe(false);
      expect(server.asked).toHaveLength(1);
      fireEvent.change(field, { target: { value: '4' } });
      await vi.advanceTimersByTimeAsync(600);
      expect(server.asked).toHaveLength(2);
      expect(model.isReady).toBe(true);
    }
  );

  it('says beside a parameter what does not fit it, and only there', async () => {
    server.preview = aPreview({
      problems: [
        { option: 'parameters.lr', message: 'lr must be a number.', hint: '' },
        { option: '', message: 'Something else.', hint: '' }
      ]
    });
    await model.open();
    render(<Form model={model} trans={trans} />);
    const lr = screen.getByLabelText('lr');
    expect(lr.getAttribute('aria-invalid')).toBe('true');
    screen.getByText('lr must be a number.');
    cleanup();
    render(<Preview {...{ model, showCell: () => undefined, trans }} />);
    expect(screen.queryByText('lr must be a number.')).toBeNull();
    screen.getByText('Something else.');
  });
});

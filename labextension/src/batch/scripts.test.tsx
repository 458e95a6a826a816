import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { aPreview, FakeBatch } from '../testing/batch';
import { settled } from '../testing/server';
import { fromStored, toRequest } from './choices';
import { BatchDialog } from './dialog';
import { Form } from './form';
import { BatchModel } from './model';
import { Preview } from './preview';

const trans = nullTranslator.load('jupyter_hpc');

let server: FakeBatch;
let model: BatchModel;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeBatch();
  model = new BatchModel(server, 'a/train.ipynb', fromStored({}));
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

describe('a script', () => {
  it('asks a script for its words and not for what a notebook is', async () => {
    model.dispose();
    model = new BatchModel(server, 'a/my train.py', fromStored({}));
    server.preview = aPreview({ changes: [], parameters: [] });
    await model.open();
    const { unmount } = render(<Form model={model} trans={trans} />);
    expect(screen.queryByLabelText('Run it as')).toBeNull();
    fireEvent.change(screen.getByLabelText('Arguments'), {
      target: { value: '--epochs 3' }
    });
    fireEvent.change(screen.getByLabelText('Then run'), {
      target: { value: 'predict.py --all\nclean.sh\n' }
    });
    fireEvent.change(screen.getByLabelText('Start after jobs'), {
      target: { value: '12, 13_4' }
    });
    unmount();
    render(<Preview {...{ model, showCell: () => undefined, trans }} />);
    expect(screen.queryByText(/compare them/)).toBeNull();
    expect(screen.queryByRole('tab', { name: /Changes/ })).toBeNull();
    await model.submit();
    expect(server.submitted).toEqual([
      {
        path: 'a/my train.py',
        seen: ['cell 1:ab'],
        arguments: '--epochs 3',
        then: ['predict.py --all', 'clean.sh'],
        after: ['12', '13_4']
      }
    ]);
  });
});

describe('a notebook', () => {
  it('leaves out cells that are not Python on a tick', async () => {
    await model.open();
    render(<Form model={model} trans={trans} />);
    fireEvent.click(
      screen.getByLabelText('Leave out cells that are not Python')
    );
    expect(toRequest(model.choices)).toEqual({ skip_invalid: true });
    expect(fromStored({ skip_invalid: true }).skipInvalid).toBe(true);
  });
});

describe('the button', () => {
  it('is ours alone, whatever JupyterLab thinks of the fields', async () => {
    const dialog = new BatchDialog(model, trans);
    void dialog.launch();
    await settled();
    await model.open();
    const button: HTMLButtonElement = dialog.node.querySelector(
      '.jp-Dialog-footer .jp-mod-accept'
    )!;
    const field = document.createElement('input');
    field.required = true; // and empty, which JupyterLab takes for a reason to stop
    dialog.node.querySelector('.jp-Dialog-body')!.append(field);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    expect(button.disabled).toBe(false);
    dialog.reject();
  });
});

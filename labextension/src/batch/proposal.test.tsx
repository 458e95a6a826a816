import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { IProposal } from '../data/api';
import { aPreview, FakeBatch } from '../testing/batch';
import { settled } from '../testing/server';
import { fromStored } from './choices';
import { editCells, type IEditable } from './editing';
import { BatchModel } from './model';
import { Preview } from './preview';

const trans = nullTranslator.load('jupyter_hpc');

let server: FakeBatch;
let model: BatchModel;

beforeEach(() => {
  server = new FakeBatch();
});

afterEach(() => {
  model.dispose();
  cleanup();
});

describe('a proposal', () => {
  const edit = {
    cell: 3,
    before: 'for',
    after: 'with',
    diff: '@@ -1 +1 @@\n-for\n+with'
  };
  const aProposal = (changes: Partial<IProposal> = {}): IProposal => ({
    framework: 'torch',
    message: 'Nothing is saved.',
    unsure: '',
    notes: ['Saved often.'],
    edits: [edit],
    recipe: '',
    ...changes
  });
  const aPanel = (
    source = 'for',
    changes: Partial<IEditable['context']> = {}
  ): IEditable & { source: () => string; saved: () => number } => {
    const sharedModel = {
      source,
      setSource: (value: string) => void (sharedModel.source = value)
    };
    const cell = { type: 'code', sharedModel };
    const model = {
      dirty: false,
      readOnly: false,
      cells: { get: () => cell, length: 3 }
    };
    let saves = 0;
    const save = (): Promise<void> => Promise.resolve(void saves++);
    const context = {
      contentsModel: { writable: true },
      model,
      save,
      ...changes
    };
    return { context, source: () => sharedModel.source, saved: () => saves };
  };
  const shown = (panel: IEditable | null): ReturnType<typeof render> => {
    model = new BatchModel(
      server,
      'a/train.ipynb',
      fromStored(undefined),
      panel && (edits => editCells(panel, edits, trans))
    );
    return render(<Preview {...{ model, showCell: () => undefined, trans }} />);
  };

  it('is written into its cell when it is accepted', async () => {
    const panel = aPanel();
    server.preview = aPreview({ proposal: aProposal() });
    const { rerender } = shown(panel);
    await model.open();
    rerender(<Preview {...{ model, showCell: () => undefined, trans }} />);
    expect(screen.getByLabelText('Cell 3').textContent).toContain('+with');
    server.preview = aPreview();
    fireEvent.click(screen.getByText('Apply to the notebook'));
    await settled();
    expect(panel.source()).toBe('with');
    expect(panel.saved()).toBe(1);
    expect(server.asked).toHaveLength(2);
    rerender(<Preview {...{ model, showCell: () => undefined, trans }} />);
    screen.getByText(/Undo there takes them back out/);
  });

  it.each([
    ['another', {}, /Cell 3 is no longer as it was/],
    ['for', { contentsModel: { writable: false } }, /read-only/]
  ])('is not written into %s %j', async (source, changes, why) => {
    const panel = aPanel(source, changes);
    server.preview = aPreview({ proposal: aProposal() });
    shown(panel);
    await model.open();
    await model.apply([edit]);
    expect(panel.source()).toBe(source);
    expect(panel.saved()).toBe(0);
    expect(model.problem?.message).toMatch(why);
    expect(model.applied).toEqual([]);
  });

  it('is lines to write where no change is sure, and without an open notebook', async () => {
    const unsure = { unsure: 'Two loops.', edits: [], recipe: 'with Run():' };
    server.preview = aPreview({ proposal: aProposal(unsure) });
    const { rerender } = shown(null);
    await model.open();
    rerender(<Preview {...{ model, showCell: () => undefined, trans }} />);
    const section = screen.getByLabelText('To go on where it ended');
    expect(section.textContent).toContain('Nothing is saved. Two loops.');
    expect(screen.getByLabelText('Lines to write').textContent).toBe(
      'with Run():\n'
    );
    expect(screen.queryByText('Apply to the notebook')).toBeNull();
    await model.apply([edit]);
    expect(server.asked).toHaveLength(1);
  });
});

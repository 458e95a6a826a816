import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { aPreview } from '../testing/batch';
import { Changes } from './changes';
import { Executions } from './links';

const trans = nullTranslator.load('jupyter_hpc');

afterEach(cleanup);

describe('the changes', () => {
  const shown = (cell: number) => ({
    cell,
    line: 1,
    source: 'x',
    what: 'shown',
    why: 'a script shows nothing by itself',
    before: 'x',
    after: '_hpc.show(x)'
  });
  const timed = { ...shown(9), what: 'timed', why: 'a magic', after: '' };

  it('stand under their kind, with the reason once', () => {
    const changes = [shown(1), timed, shown(2), shown(3)];
    const { container } = render(
      <Changes
        preview={aPreview({ changes })}
        showCell={() => undefined}
        trans={trans}
      />
    );
    const kinds = [...container.querySelectorAll('details')];
    expect(kinds.map(kind => kind.open)).toEqual([false, true]);
    expect(kinds[0].querySelector('summary')?.textContent).toBe(
      'shown (3)a script shows nothing by itself'
    );
    expect(kinds[0].querySelectorAll('li')).toHaveLength(3);
    expect(screen.getAllByText(/shows nothing by itself/)).toHaveLength(1);
    expect(kinds[0].querySelector('pre')?.textContent).toBe(
      '- x\n+ _hpc.show(x)\n'
    );
    expect(kinds[1].querySelector('pre')?.textContent).toBe('- x\n');
  });

  it('lead to their cell, by the number that people see as well', () => {
    const showCell = vi.fn();
    render(
      <Executions.Provider value={{ '2': 7 }}>
        <Changes
          preview={aPreview({ changes: [shown(2)] })}
          showCell={showCell}
          trans={trans}
        />
      </Executions.Provider>
    );
    fireEvent.click(screen.getByText('Cell 2, In [7]'));
    expect(showCell).toHaveBeenCalledWith(2);
  });

  it('give each its own reason where they differ', () => {
    const set = (cell: number, why: string) => ({
      ...shown(cell),
      what: 'can be set from outside',
      why
    });
    const changes = [set(1, 'constant'), set(2, 'loop')];
    const { container } = render(
      <Changes
        preview={aPreview({ changes })}
        showCell={() => undefined}
        trans={trans}
      />
    );
    const lines = [...container.querySelectorAll('li')];
    expect(lines[0].textContent).toContain('line 1: constant');
    expect(lines[1].textContent).toContain('line 1: loop');
  });
});

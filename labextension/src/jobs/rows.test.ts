import { describe, expect, it } from 'vitest';

import { aFinishedJob, aJob, someJobs } from '../testing/values';
import { changesBetween } from './changes';
import { countStates, countTasks, tableRows, targetOf } from './rows';

const none = new Set<string>();

describe('the lines of the table', () => {
  const array = [
    aJob('35_1', { array_id: '35', array_tasks: '1' }),
    aJob('9'),
    aJob('35_[2-4%1]', {
      array_id: '35',
      array_tasks: '2-4%1',
      target: '35_[2-4]',
      state: 'PENDING',
      phase: 'pending'
    })
  ];
  const jobs = someJobs(array, [aFinishedJob('3')]);

  it('put the parts of an array under one line', () => {
    const rows = tableRows(jobs, 'queue', '', none);
    expect(rows.map(row => row.key)).toEqual(['group 35', '9']);
    expect(targetOf(rows[0])).toBe('35');
  });

  it('show the parts when it is opened', () => {
    const rows = tableRows(jobs, 'queue', '', new Set(['35']));
    expect(rows.map(row => row.key)).toEqual([
      'group 35',
      '35_1',
      '35_[2-4%1]',
      '9'
    ]);
    expect(targetOf(rows[2])).toBe('35_[2-4]');
  });

  it('group the parts of a het job', () => {
    const het = ['12+0', '12+1'].map(id => aJob(id, { het_id: '12' }));
    const rows = tableRows(someJobs(het), 'queue', '', none);
    expect(rows.map(row => row.kind)).toEqual(['group']);
  });

  it('show finished jobs by themselves', () => {
    const rows = tableRows(jobs, 'finished', '', none);
    expect(rows.map(row => row.key)).toEqual(['3']);
  });

  it('put the finished parts of an array under one line, too', () => {
    const finished = [
      aFinishedJob('35_2', { ended: 1200 }),
      aFinishedJob('3'),
      aFinishedJob('35_1', { state: 'FAILED', ended: 1100 })
    ];
    const keys = (open: Set<string>): string[] =>
      tableRows(someJobs([], finished), 'finished', '', open).map(
        row => row.key
      );
    expect(keys(new Set())).toEqual(['group 35', '3']);
    expect(keys(new Set(['35']))).toEqual(['group 35', '35_2', '35_1', '3']);
    expect(countStates(finished)).toEqual([
      { state: 'done', count: 2, own: ['COMPLETED'] },
      { state: 'failed', count: 1, own: ['FAILED'] }
    ]);
  });

  it('find every word of the filter anywhere', () => {
    const keys = (filter: string): string[] =>
      tableRows(jobs, 'queue', filter, none).map(row => row.key);
    expect(keys('pending')).toEqual(['35_[2-4%1]']);
    expect(keys('waiting')).toEqual(['35_[2-4%1]']);
    expect(keys('JOB  9')).toEqual(['9']);
    expect(keys('nothing')).toEqual([]);
  });

  it('count by the words of people, and keep those of Slurm', () => {
    const ends = ['TIMEOUT', 'FAILED', 'TIMEOUT'].map((state, index) =>
      aFinishedJob(String(index), { state })
    );
    const held = aJob('4', { state: 'PENDING', reason: 'JobHeldUser' });
    expect(countStates([...ends, held])).toEqual([
      { state: 'failed', count: 3, own: ['TIMEOUT', 'FAILED'] },
      { state: 'held', count: 1, own: ['PENDING'] }
    ]);
  });

  it('count tasks, also those that wait', () => {
    expect(countStates(array.slice(0, 1).concat(array[2]))).toEqual([
      { state: 'running', count: 1, own: ['RUNNING'] },
      { state: 'waiting', count: 3, own: ['PENDING'] }
    ]);
    expect(countTasks('1,3,5-9:2%4')).toBe(5);
    expect(countTasks('1-...')).toBe(1);
    expect(countTasks(null)).toBe(1);
  });
});

describe('what happened between two lists', () => {
  const waiting = aJob('1', { state: 'PENDING', phase: 'pending' });

  it('is a job that began', () => {
    const changes = changesBetween(someJobs([waiting]), someJobs([aJob('1')]));
    expect(changes).toMatchObject([{ id: '1', phase: 'running' }]);
  });

  it('is a job that ended while we looked', () => {
    const changes = changesBetween(
      someJobs([aJob('1')], [aFinishedJob('0')]),
      someJobs([], [aFinishedJob('1', { state: 'FAILED' }), aFinishedJob('0')])
    );
    expect(changes).toMatchObject([{ id: '1', state: 'FAILED' }]);
  });

  it('is a task of an array that we saw waiting', () => {
    const rest = aJob('7_[1-2]', { array_id: '7', phase: 'pending' });
    const changes = changesBetween(
      someJobs([rest]),
      someJobs([], [aFinishedJob('7_1')])
    );
    expect(changes).toMatchObject([{ id: '7_1' }]);
  });

  it('is a task found after its array has left the queue', () => {
    const after = someJobs([], [aFinishedJob('7_1'), aFinishedJob('8_1')]);
    const changes = changesBetween(someJobs([]), after, new Set(['7']));
    expect(changes.map(change => change.id)).toEqual(['7_1']);
  });

  it('is not what the first listing has of an array', () => {
    const finished = { ...someJobs([]).finished, taken_at: null };
    const before = someJobs([], [], { finished });
    const after = someJobs([], [aFinishedJob('7_1')]);
    expect(changesBetween(before, after, new Set(['7']))).toEqual([]);
  });

  it('is not what ended before, nor a job seen running at first', () => {
    const before = someJobs([]);
    const after = someJobs([aJob('4')], [aFinishedJob('2')]);
    expect(changesBetween(before, after)).toEqual([]);
  });
});

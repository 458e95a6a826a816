import { describe, expect, it } from 'vitest';

import { wordOf } from './state';

describe('a state', () => {
  it.each([
    ['PENDING', 'waiting'],
    ['RUNNING', 'running'],
    ['COMPLETING', 'running'],
    ['SUSPENDED', 'held'],
    ['COMPLETED', 'done'],
    ['CANCELLED by 1000', 'cancelled'],
    ['CANCELLED+', 'cancelled'],
    ['OUT_OF_MEMORY', 'failed'],
    ['TIMEOUT', 'failed'],
    ['UNKNOWN', null],
    ['goes on', 'waiting'],
    ['stopped', 'failed'],
    ['incomplete', 'failed'],
    ['something', null]
  ])('%s is %s', (state, word) => expect(wordOf(state)).toBe(word));

  it('is held where a person holds it', () => {
    expect(wordOf('PENDING', 'JobHeldUser')).toBe('held');
    expect(wordOf('PENDING', 'Priority')).toBe('waiting');
  });
});

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IDated, IProblem } from '../data/api';
import { ageOf, type IFeed } from '../data/feed';
import { formatSpan } from './format';
import { useFeed, useTick } from './hooks';
import { Problem } from './problem';

/** Data that came less than so many seconds ago needs no word about its age. */
const FRESH_SECONDS = 10;

interface IFeedViewProps<T> {
  feed: IFeed<T>;
  trans: TranslationBundle;
  children: (value: T) => React.ReactNode;
}

/**
 * What every section shows of its feed: the reason why there is nothing (new),
 * and the last good value.
 */
export function FeedView<T extends object>(
  props: IFeedViewProps<T>
): JSX.Element {
  const { feed, trans, children } = props;
  const { value, error } = useFeed(feed);
  const problem = error ?? problemOf(value);
  return (
    <>
      {problem && <Problem problem={problem} />}
      {value && children(value)}
      {!value && !problem && (
        <p className="jp-Hpc-quiet">{trans.__('Asking the server…')}</p>
      )}
    </>
  );
}

function problemOf(value: object | null): IProblem | null {
  return value && 'problem' in value ? (value.problem as IProblem) : null;
}

interface IAgeProps {
  feed: IFeed<unknown>;
  /** Null while there has been no data. */
  dated: { age: IDated['age'] | null };
  trans: TranslationBundle;
}

/** How old the data is, counted on while nothing new comes. */
export function Age({ feed, dated, trans }: IAgeProps): JSX.Element | null {
  useTick(5000);
  if (dated.age === null) {
    return null;
  }
  const age = ageOf(feed, dated.age);
  return (
    <span className="jp-Hpc-quiet jp-Hpc-age">
      {age < FRESH_SECONDS
        ? trans.__('up to date')
        : trans.__('%1 old', formatSpan(age, trans))}
    </span>
  );
}

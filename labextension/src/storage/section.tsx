import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IAccount, IBudget, IStorageArea } from '../data/api';
import type { IHpcClient } from '../tokens';
import { Bar } from '../ui/bar';
import { Age, FeedView } from '../ui/feedview';
import { formatBytes, formatCount } from '../ui/format';
import { Problem } from '../ui/problem';
import { Scrolled } from '../ui/scrolled';

interface IStorageProps {
  client: IHpcClient;
  trans: TranslationBundle;
}

/** Space, files and budget, each with what the numbers mean. */
export function StorageSection({ client, trans }: IStorageProps): JSX.Element {
  return (
    <FeedView feed={client.storage} trans={trans}>
      {report => (
        <>
          {report.places.map(area => (
            <StorageArea key={area.name} area={area} trans={trans} />
          ))}
          {report.places.length === 0 && (
            <p className="jp-Hpc-quiet">{trans.__('No storage is known.')}</p>
          )}
          {report.budget && <Budget budget={report.budget} trans={trans} />}
          <Age feed={client.storage} dated={report} trans={trans} />
        </>
      )}
    </FeedView>
  );
}

interface IStorageAreaProps {
  area: IStorageArea;
  trans: TranslationBundle;
}

function StorageArea({ area, trans }: IStorageAreaProps): JSX.Element {
  const { used, limit, files_used, files_limit } = area;
  const amount = (
    value: number,
    most: number | null,
    format: (value: number) => string
  ): string =>
    most === null
      ? format(value)
      : trans.__('%1 of %2', format(value), format(most));
  return (
    <section className="jp-Hpc-storageArea" aria-label={area.name}>
      <h4 title={area.path}>
        {area.name} <span className="jp-Hpc-quiet">{area.path}</span>
      </h4>
      {area.problem && <Problem problem={area.problem} />}
      {used !== null && (
        <Bar
          label={trans.__('Space')}
          text={amount(used, limit, formatBytes)}
          share={limit ? used / limit : null}
        />
      )}
      {files_used !== null && (
        <Bar
          label={trans.__('Files')}
          text={amount(files_used, files_limit, formatCount)}
          share={files_limit ? files_used / files_limit : null}
        />
      )}
      {area.report && (
        <Scrolled className="jp-Hpc-report" label={area.name}>
          {area.report}
        </Scrolled>
      )}
      <p className="jp-Hpc-quiet">{notesOf(area, trans).join(' · ')}</p>
    </section>
  );
}

function notesOf(area: IStorageArea, trans: TranslationBundle): string[] {
  const notes = [area.label];
  if (area.purge_days !== null) {
    notes.push(
      trans._n(
        'files are removed after %1 day',
        'files are removed after %1 days',
        area.purge_days
      )
    );
  }
  if (area.backup !== null) {
    notes.push(area.backup ? trans.__('backed up') : trans.__('no backup'));
  }
  if (area.note) {
    notes.push(area.note);
  }
  return notes.filter(Boolean);
}

interface IBudgetProps {
  budget: IBudget;
  trans: TranslationBundle;
}

function Budget({ budget, trans }: IBudgetProps): JSX.Element {
  return (
    <section className="jp-Hpc-storageArea" aria-label={trans.__('Budget')}>
      <h4>{trans.__('Budget')}</h4>
      {budget.problem && <Problem problem={budget.problem} />}
      {budget.accounts.map(account => (
        <Account key={account.account} account={account} trans={trans} />
      ))}
      {budget.remaining !== null && (
        <p className={budget.low ? 'jp-Hpc-problem' : undefined}>
          {trans.__(
            '%1 left',
            [budget.remaining.toLocaleString(), budget.unit]
              .filter(Boolean)
              .join(' ')
          )}
          {budget.low && ` – ${trans.__('less than the limit for a warning')}`}
        </p>
      )}
      {budget.report && (
        <Scrolled className="jp-Hpc-report" label={trans.__('Budget')}>
          {budget.report}
        </Scrolled>
      )}
    </section>
  );
}

interface IAccountProps {
  account: IAccount;
  trans: TranslationBundle;
}

function Account({ account, trans }: IAccountProps): JSX.Element {
  return (
    <>
      {account.limits.map(limit => (
        <Bar
          key={limit.resource}
          label={`${account.account}: ${limit.resource}`}
          text={spent(limit, trans)}
          share={limit.limit ? limit.used / limit.limit : null}
        />
      ))}
      {account.limits.length === 0 && (
        <Bar
          label={account.account}
          text={
            account.fairshare === null
              ? trans.__('%1 hours', hours(account.usage / 60))
              : trans.__(
                  '%1 hours used, fair share %2',
                  hours(account.usage / 60),
                  account.fairshare.toFixed(3)
                )
          }
          share={null}
        />
      )}
    </>
  );
}

/** "683 of 1,000 hours": a budget is granted in hours of a core or GPU, not in days. */
export function spent(
  { resource, used, limit }: IAccount['limits'][number],
  trans: TranslationBundle
): string {
  const amount =
    limit === null
      ? hours(used)
      : trans.__('%1 of %2', hours(used), hours(limit));
  return resource === 'mem'
    ? trans.__('%1 MiB hours', amount)
    : trans.__('%1 hours', amount);
}

function hours(minutes: number): string {
  return formatCount(Math.round(minutes / 60));
}

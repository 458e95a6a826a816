import type { TranslationBundle } from '@jupyterlab/translation';

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** "80 GiB", "1.5 TiB"; three digits at most. */
export function formatBytes(bytes: number): string {
  const power = Math.min(
    SIZES.length - 1,
    bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0
  );
  const amount = bytes / 1024 ** power;
  const digits = power === 0 || amount >= 100 ? 0 : 1;
  return `${amount.toFixed(digits).replace(/\.0$/, '')} ${SIZES[power]}`;
}

/** "45 s", "12 min", "3 h 05 min", "2 d 3 h"; rounded down. */
export function formatSpan(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days > 0) {
    return trans.__('%1 d %2 h', days, hours % 24);
  }
  if (hours > 0) {
    return trans.__(
      '%1 h %2 min',
      hours,
      String(minutes % 60).padStart(2, '0')
    );
  }
  return minutes > 0 ? trans.__('%1 min', minutes) : trans.__('%1 s', whole);
}

/** The time of day, with the date unless it is today. */
export function formatTime(epochSeconds: number): string {
  const moment = new Date(epochSeconds * 1000);
  const time = moment.toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit'
  });
  const today = moment.toDateString() === new Date().toDateString();
  return today ? time : `${moment.toLocaleDateString()} ${time}`;
}

/** "1,234 files" and the like. */
export function formatCount(count: number): string {
  return count.toLocaleString();
}

/** "95 %", or a dash where there is no value. */
export function formatPercent(value: number | null): string {
  return value === null ? '–' : `${Math.round(value)} %`;
}

/** Four digits that count: "0.1235", "1.235e-7", "12350". */
export function formatNumber(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

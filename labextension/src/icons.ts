import { LabIcon } from '@jupyterlab/ui-components';

/** Three stacked nodes with their lights; drawn for 24 units, coloured by the theme. */
export const hpcIcon = new LabIcon({
  name: 'jupyter-hpc:icon',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<g class="jp-icon3" fill="#616161"><path fill-rule="evenodd" d="' +
    [4, 10.25, 16.5].map(drawNode).join('') +
    '"/></g></svg>'
});

/** Columns of different heights on a line. */
export const tensorBoardIcon = new LabIcon({
  name: 'jupyter-hpc:tensorboard',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" ' +
    'd="M3 19h18v2H3zM5 11h3v7H5zM10.5 4h3v14h-3zM16 8h3v10h-3z"/></svg>'
});

/** One node: a bar with two holes for the lights. */
function drawNode(top: number): string {
  const middle = top + 1.75;
  return `M3 ${top}h18v4.5H3z` + `M5 ${middle}h2v1H5z` + `M9 ${middle}h9v1H9z`;
}

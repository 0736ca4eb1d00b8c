/** A picture of a module: its parts, and which of them gets tensors of which other one. */
import type { ModelModule, ModelUnit } from '../state.js';
import { BOX, layOut } from './flow-layout.js';
import { Scroll } from './scroll.js';

const LONGEST = 24;
const MARGIN = 4;

const lastPart = (name: string): string => name.slice(name.lastIndexOf('/') + 1);
const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

function titleOf({ kind, name, text }: ModelUnit): string {
  return kind === 'rest' ? `${text} more` : lastPart(name);
}

/** What an op is, unless its name says so, and the shape of what it gives. */
function detailOf(unit: ModelUnit): string {
  const { kind, text, shape } = unit;
  const what = kind === 'op' && text !== titleOf(unit) ? text : kind === 'variable' ? 'variable' : '';
  return [what, shape].filter(Boolean).join(' ');
}

export function Flow({
  module: { path, units, edges },
  isModule,
  onOpen,
}: {
  readonly module: ModelModule;
  /** Whether a module can be opened. */
  readonly isModule: (path: string) => boolean;
  readonly onOpen: (path: string) => void;
}) {
  const { width, height, boxes } = layOut(units.length, edges);
  const name = path === '' ? 'the graph' : path;
  const label = `How tensors flow in ${name}: ${units.map(titleOf).join(', ')}`;
  return (
    <Scroll label={`Picture of ${name}`} kind="tall flow">
      <svg
        role="img"
        aria-label={label}
        width={width + 2 * MARGIN}
        height={height + 2 * MARGIN}
        viewBox={`${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`}
      >
        {edges.map(([from, to]) => {
          const [a, b] = [boxes[from], boxes[to]];
          if (!a || !b) return null;
          const [x1, y1] = [a.x + BOX.width / 2, a.y + BOX.height];
          const [x2, y2] = [b.x + BOX.width / 2, b.y];
          const bend = Math.max(14, Math.abs(y2 - y1) / 2);
          return (
            <path
              key={`${from} ${to}`}
              d={`M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`}
            />
          );
        })}
        {units.map((unit, i) => {
          const { x, y } = boxes[i]!;
          const canOpen = unit.kind === 'module' && isModule(unit.name);
          return (
            // biome-ignore lint/a11y/noStaticElementInteractions: the table of modules has buttons for the keyboard
            <g
              key={unit.name}
              class={`unit ${unit.kind}${canOpen ? ' opens' : ''}`}
              transform={`translate(${x} ${y})`}
              onClick={canOpen ? () => onOpen(unit.name) : undefined}
            >
              <title>{`${unit.name} ${detailOf(unit)}`}</title>
              <rect width={BOX.width} height={BOX.height} rx={unit.kind === 'variable' ? 23 : 7} />
              <text x={BOX.width / 2} y={19}>
                {cut(titleOf(unit))}
              </text>
              <text x={BOX.width / 2} y={36} class="detail">
                {cut(detailOf(unit))}
              </text>
            </g>
          );
        })}
      </svg>
    </Scroll>
  );
}

/** The graph of the model by module, its variables, and where they are. */
import { signal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { ModelModule, PageModel } from '../state.js';
import { useAnswer } from './ask.js';
import { Flow } from './flow.js';
import { bytesText, whole } from './format.js';
import { Placement } from './placement.js';
import { Scroll } from './scroll.js';

const ABSENT_MS = 3000;
const CURRENT_MS = 60_000;

/** The module whose picture is shown. */
const opened = signal('');

function Modules({ model }: { readonly model: PageModel }) {
  const open = (path: string) => {
    opened.value = path;
  };
  return (
    <Scroll label="Modules of the model" kind="tall">
      <table>
        <thead>
          <tr>
            <th scope="col">Module</th>
            <th scope="col" class="number">
              Ops
            </th>
            <th scope="col" class="number">
              Variables
            </th>
            <th scope="col" class="number">
              Bytes
            </th>
            <th scope="col">On</th>
          </tr>
        </thead>
        <tbody>
          {model.modules.map(({ path, ops, variables, bytes, tasks, units }) => {
            const depth = path === '' ? 0 : path.split('/').length;
            const name = path === '' ? 'the graph' : path.slice(path.lastIndexOf('/') + 1);
            return (
              <tr key={path}>
                <th scope="row" style={{ paddingLeft: `${0.6 + depth * 1.1}rem` }}>
                  {units.length > 0 ? (
                    <button
                      type="button"
                      class="plain"
                      aria-pressed={opened.value === path}
                      onClick={() => open(path)}
                    >
                      {name}
                    </button>
                  ) : (
                    name
                  )}
                </th>
                <td class="number">{whole(ops)}</td>
                <td class="number">{variables === 0 ? '' : whole(variables)}</td>
                <td class="number">{bytes === 0 ? '' : bytesText(bytes)}</td>
                <td>{tasks.join(', ')}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

function Variables({ model: { variables, moreVariables } }: { readonly model: PageModel }) {
  return (
    <details>
      <summary>
        {whole(variables.length + moreVariables)} variables, the largest first
        {moreVariables > 0 && `; ${whole(moreVariables)} small ones are not listed`}
      </summary>
      <Scroll label="Variables" kind="tall">
        <table>
          <thead>
            <tr>
              <th scope="col">Variable</th>
              <th scope="col">Type</th>
              <th scope="col">Shape</th>
              <th scope="col" class="number">
                Bytes
              </th>
              <th scope="col">Held by</th>
            </tr>
          </thead>
          <tbody>
            {variables.map(({ name, dtype, shape, bytes, task }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{dtype}</td>
                <td>{shape}</td>
                <td class="number">{bytesText(bytes)}</td>
                <td>{task}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

function Graph({ model }: { readonly model: PageModel }) {
  const shown = (path: string): ModelModule | undefined =>
    model.modules.find((module) => module.path === path && module.units.length > 0);
  const module = shown(opened.value) ?? shown('');
  return (
    <>
      <Placement model={model} />
      <h3>Modules</h3>
      <div class="graph">
        <Modules model={model} />
        {module ? (
          <Flow
            module={module}
            isModule={(path) => shown(path) !== undefined}
            onOpen={(path) => {
              opened.value = path;
            }}
          />
        ) : (
          <p class="empty">The ops of this graph are not connected.</p>
        )}
      </div>
      <p class="key">
        Of the ops those are drawn that compute the loss. Choose a module to see what is in it.
        {model.moreModules > 0 && ` ${whole(model.moreModules)} more modules are not listed.`}
      </p>
      <Variables model={model} />
    </>
  );
}

export function Model() {
  const section = useRef<HTMLElement>(null);
  const model = useAnswer<PageModel | null>(section, {
    path: () => '/page/model',
    waitMs: (last) => (last === null ? ABSENT_MS : CURRENT_MS),
  });
  return (
    <section id="model" aria-labelledby="model-title" ref={section}>
      <h2 id="model-title">Model</h2>
      {model ? (
        <Graph model={model} />
      ) : (
        <p class="empty">{model === null ? 'No task that answers has the graph yet.' : 'Loading …'}</p>
      )}
    </section>
  );
}

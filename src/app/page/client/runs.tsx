/** Several runs side by side: the legend of all curves, and which of them are shown. */
import { number, whole } from './format.js';
import { colorOf, hiddenRuns, isOfRun } from './lines.js';
import { Scroll } from './scroll.js';
import { isDark } from './settings.js';
import { state } from './store.js';

export function Runs() {
  const { runs, tasks } = state.value!;
  const show = (names: readonly string[], isShown: boolean) => {
    const next = new Set(hiddenRuns.value);
    for (const name of names) {
      if (isShown) next.delete(name);
      else next.add(name);
    }
    hiddenRuns.value = next;
  };
  const [hasParams, hasState] = [runs.some(({ params }) => params), runs.some((run) => run.state)];
  const all = runs.map(({ name }) => name);
  return (
    <section id="runs" aria-labelledby="runs-title">
      <h2 id="runs-title">Runs</h2>
      <div class="buttons toolbar">
        <button type="button" onClick={() => show(all, true)}>
          Show all
        </button>
        <button type="button" onClick={() => show(all, false)}>
          Hide all
        </button>
      </div>
      <Scroll label="Table of runs" kind="tall">
        <table>
          <thead>
            <tr>
              <th scope="col">Run</th>
              {hasParams && <th scope="col">Parameters</th>}
              {hasState && <th scope="col">State</th>}
              <th scope="col" class="number">
                Step
              </th>
              <th scope="col" class="number">
                Loss
              </th>
              <th scope="col">Directory</th>
            </tr>
          </thead>
          <tbody>
            {runs.map(({ name, params, state: ended, lastStep, loss, directory }) => {
              const colors = tasks
                .filter(({ task }) => isOfRun(task, name))
                .map(({ task }) => colorOf(task, isDark.value));
              return (
                <tr key={name}>
                  <th scope="row">
                    <label class="check">
                      <input
                        type="checkbox"
                        checked={!hiddenRuns.value.has(name)}
                        onChange={(event) => show([name], event.currentTarget.checked)}
                      />
                      {colors.map((color) => (
                        <span key={color} class="swatch" style={{ background: color }} />
                      ))}
                      {name}
                    </label>
                  </th>
                  {hasParams && <td>{params}</td>}
                  {hasState && <td>{ended}</td>}
                  <td class="number">{whole(lastStep)}</td>
                  <td class="number">{number(loss)}</td>
                  <td class="path">{directory}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

/** The form that asks for the token. Its style is inside: without credentials nothing else is served. */
import { createHash } from 'node:crypto';

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; place-items: center; min-height: 90vh; margin: 0; padding: 1rem; }
main { width: min(24rem, 100%); }
h1 { font-size: 1.4rem; }
label { display: block; font-weight: 600; }
input, button { box-sizing: border-box; width: 100%; margin-top: .5rem; padding: .6rem; border-radius: 6px; font: inherit; border: 1px solid #767676; }
button { background: #0b57d0; color: #fff; border: 0; font-weight: 600; cursor: pointer; }
:focus-visible { outline: 3px solid #6ea2ff; outline-offset: 2px; }
.wrong { color: light-dark(#b3261e, #ff9a90); }
`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

export const LOGIN_POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;

export const loginPage = (isWrong: boolean): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Shoal: log in</title><style>${STYLE}</style></head>
<body><main>
<h1>Shoal</h1>
<form method="post" action="/page/login">
<input name="user" value="shoal" autocomplete="username" hidden>
<label for="token">Token of the cluster, or the code of the page</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus${isWrong ? ' aria-invalid="true" aria-describedby="wrong"' : ' aria-describedby="hint"'}>
${isWrong ? '<p id="wrong" class="wrong" role="alert">That is neither the token nor the code.</p>' : ''}
<p id="hint">The command <code>shoal page</code> prints the code.</p>
<button>Log in</button>
</form>
</main></body></html>
`;

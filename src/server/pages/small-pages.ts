/** Pages that are shown while there is no build. They have no script, and one small style sheet. */
import { escapeHtml } from '../escape-html.ts'

/** The style sheet of these pages. */
export const SMALL_STYLE =
  ':root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:40rem;margin:15vh auto 0;padding:0 1rem}' +
  'h1{font-size:1.25rem}code,pre{font:.875rem/1.5 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;border:1px solid}'

/** What is built, in the words of these pages. */
export type PageTexts = {
  /** As a sentence begins: `The dashboard`. */
  readonly title: string
  /** Builds it, and shows the problems. */
  readonly command: string
  /** The path of the style sheet. The server replaces `{root}` in it. */
  readonly style: string
}

const RETRY = '<p>Then reload this page. The gateway and its API are not affected.</p>'

export const smallPages = ({ title, command, style }: PageTexts) => {
  const page = (state: string, body: string, refresh = ''): string =>
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate: ${title} ${state}</title>` +
    `<meta name="viewport" content="width=device-width">${refresh}<link rel="stylesheet" href="${style}"></head>` +
    `<body><main><h1>${title} ${state}</h1>${body}</main></body></html>`
  return {
    /** Reloads itself until the build is there. */
    beingBuilt: page(
      'is being built',
      '<p>This happens once after each change of its sources, and takes a few seconds. This page reloads itself. The gateway answers requests meanwhile.</p>',
      '<meta http-equiv="refresh" content="1">',
    ),
    /** The packages of the build are not installed. */
    notInstalled: page(
      'is not installed',
      `<p>Install its packages once, in the folder of the gateway:</p><pre>npm run setup</pre>${RETRY}`,
    ),
    /** There is no build, and this request may not begin one. */
    notBuilt: page(
      'is not built',
      `<p>In production it is built on the machine of the gateway only. Run there, in the folder of the gateway:</p><pre>${command}</pre>${RETRY}`,
    ),
    /** The files of the npm package cannot be used. */
    packageFailed: (reason: string): string =>
      page(
        'is not available',
        `<pre>${escapeHtml(reason)}</pre><p>If files of the package are missing, install it again. Under Node's permission model, start with <code>--allow-worker</code> and allow it to read the folder of the package.</p>` +
          '<p>The next attempt is made after 30 seconds. The gateway and its API are not affected.</p>',
      ),
    buildFailed: (output: string): string =>
      page(
        'could not be built',
        `<p>This command shows the same problem:</p><pre>${command}</pre>${RETRY}<pre>${escapeHtml(output)}</pre>`,
      ),
  }
}

/** The place of the gateway below the origin. */

const ASSETS = '/dashboard/assets/'

/** The path of the gateway in the browser, by the address of a script of the dashboard: `/`, or `/team/llm/` where a proxy removes that prefix. */
export const rootOf = (script: string): string => {
  const { protocol, pathname } = new URL(script)
  const at = pathname.lastIndexOf(ASSETS)
  return /^https?:$/.test(protocol) && at !== -1 ? pathname.slice(0, at + 1) : '/'
}

/** Ends with a slash. */
export const ROOT = rootOf(import.meta.url)

/** The prefix that a proxy removes: empty, or `/team/llm`. */
export const PREFIX = ROOT.slice(0, -1)

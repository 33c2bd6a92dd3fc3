/** Lists the modules that a process has loaded, printed at its exit. Tests limit these instead of measuring time. */
import type { Started } from './process.ts'

const TELL = `
import { registerHooks } from 'node:module'
const files = []
registerHooks({ load(url, context, next) { files.push(url); return next(url, context) } })
process.on('exit', () => {
  const builtins = process.moduleLoadList.flatMap((one) => /^NativeModule (.*)/.exec(one)?.[1] ?? [])
  process.stderr.write(JSON.stringify({ event: 'loaded', level: 'test', files, builtins }) + '\\n')
})`

/** Environment for a process that records what it loads. */
export const COUNTED = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(TELL)}` }

export type Loaded = {
  /** Package names. */
  readonly packages: readonly string[]
  /** URLs of the project's own files, `file:///…`. */
  readonly files: readonly string[]
  /** Node's own modules, including internal ones: `net`, `internal/deps/undici/undici`. */
  readonly builtins: ReadonlySet<string>
}

/** Stops a process that was started with `COUNTED`, and returns what it had loaded. */
export const loadedBy = async (gateway: Started): Promise<Loaded> => {
  await gateway.stop()
  const { files, builtins } = await gateway.line(({ event }) => event === 'loaded')
  const urls = list(files)
  const packages = urls.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [])
  return {
    packages: [...new Set(packages)].sort(),
    files: urls.filter((url) => url.startsWith('file:') && !url.includes('/node_modules/')),
    builtins: new Set(list(builtins)),
  }
}

const list = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [])

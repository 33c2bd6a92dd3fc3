/** The built files of pages: those of the package, or in a clone those built from the sources. */
import { existsSync } from 'node:fs'
import type { PageRequest } from '../page-request.ts'
import { type BuildPlan, type BuildResult, build, builtFolder } from './building.ts'
import { type PageTexts, smallPages } from './small-pages.ts'

export type PageOptions = {
  /** The folder of the project or package. */
  readonly home: string
  /** In production only requests of this machine begin a build. */
  readonly production: boolean
  /** ms on a monotonic clock. */
  readonly now: () => number
  /** A build has ended. */
  readonly onBuilt?: (result: BuildResult) => void
}

export type SourceOptions<Files> = Omit<PageOptions, 'home'> & {
  readonly plan: BuildPlan
  /** The files in the package. A text: why they cannot be used. */
  readonly packaged: () => Promise<Files | string>
  readonly texts: PageTexts
  /** The files of a build in a clone. Null: there is no complete build in this folder. */
  readonly read: (folder: string) => Promise<Files | null>
}

/** ms between two attempts. */
const ATTEMPT_INTERVAL = 30_000

/** `keep`: the request belongs to a page that was sent before, so the present build must answer it. */
type Asked = Pick<PageRequest, 'local'> & { readonly keep: boolean }

/** Returns the files, or the page to show instead. */
export const pageSource = <Files extends object>(
  options: SourceOptions<Files>,
): ((asked: Asked) => Promise<Files | string>) => {
  const { plan, packaged, texts, read, production, now, onBuilt } = options
  const pages = smallPages(texts)
  let files: Files | null = null
  let inPackage: Promise<Files | string> | null = null
  let packageFailure: { readonly page: string; readonly at: number } | null = null
  /** The build in `files`. */
  let current = ''
  let building: Promise<void> | null = null
  let failure: { readonly folder: string; readonly page: string; readonly at: number } | null = null

  const use = (folder: string, found: Files | null): Files | null => {
    if (found === null) return null
    current = folder
    failure = null
    files = found
    return found
  }

  const buildInto = async (folder: string) => {
    const result = await build(plan, folder)
    onBuilt?.(result)
    const found = result.done ? use(folder, await read(folder)) : null
    if (!found) {
      const isMissing = !result.done && result.problem === 'missing'
      const page = isMissing ? pages.notInstalled : pages.buildFailed(result.done ? '' : result.output)
      failure = { folder, page, at: now() }
    }
    building = null
  }

  const fromPackage = async () => {
    if (packageFailure && now() - packageFailure.at < ATTEMPT_INTERVAL) return packageFailure.page
    inPackage ??= packaged()
    const found = await inPackage
    inPackage = null
    if (typeof found === 'string') {
      packageFailure = { page: pages.packageFailed(found), at: now() }
      return packageFailure.page
    }
    files = found
    return found
  }

  return async ({ local, keep }) => {
    // Outside production a change of the sources is seen at the next visit.
    if (files && (production || keep)) return files
    if (building) return pages.beingBuilt
    if (!existsSync(plan.program)) return files ?? fromPackage()
    const folder = await builtFolder(plan)
    if (files && folder === current) return files
    const found = use(folder, await read(folder))
    if (found) return found
    if (production && !local) return pages.notBuilt
    if (failure?.folder === folder && now() - failure.at < ATTEMPT_INTERVAL) return failure.page
    building ??= buildInto(folder)
    return pages.beingBuilt
  }
}

import { join } from 'node:path'
import type { BuildPlan } from '../building.ts'

/** How the documentation of a clone is built. */
export const docsPlan = (home: string): BuildPlan => {
  const folder = join(home, 'dashboard')
  return {
    program: join(folder, 'site', 'build.ts'),
    needs: join(folder, 'node_modules', 'marked'),
    sources: [
      join(home, 'docs'),
      join(home, 'package.json'),
      ...['site', 'publish.ts', 'src/tokens.css', 'package-lock.json'].map((name) => join(folder, name)),
    ],
    cache: join(home, '.cache', 'docs'),
  }
}

import { join } from 'node:path'
import type { BuildPlan } from '../building.ts'

/** How the dashboard of a clone is built. */
export const dashboardPlan = (home: string): BuildPlan => {
  const folder = join(home, 'dashboard')
  return {
    program: join(folder, 'build.ts'),
    needs: join(folder, 'node_modules', 'rolldown'),
    sources: ['src', 'inline-words.ts', 'publish.ts', 'index.html', 'package-lock.json'].map((name) =>
      join(folder, name),
    ),
    cache: join(home, '.cache', 'dashboard'),
  }
}

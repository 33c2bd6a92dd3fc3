/**
 * Builds pages where a gateway of this checkout looks for them, and shows the problems: `npm run build:dashboard`,
 * `npm run build:docs`.
 */
import { join } from 'node:path'
import { build, builtFolder } from '../src/server/pages/building.ts'
import { dashboardPlan } from '../src/server/pages/dashboard/plan.ts'
import { docsPlan } from '../src/server/pages/docs/plan.ts'

const home = join(import.meta.dirname, '..')
const plan = process.argv[2] === 'docs' ? docsPlan(home) : dashboardPlan(home)
const folder = await builtFolder(plan)
const result = await build(plan, folder)
if (result.done) process.stdout.write(`${folder}\n`)
else process.stderr.write(`The build failed (${result.problem}).\n${result.output}\n`)
process.exit(result.done ? 0 : 1)

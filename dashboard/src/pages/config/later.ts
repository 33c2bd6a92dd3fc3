/** The parts of Configuration that are loaded when they are opened, as one file. */
export { Edit } from './edit.tsx'
export { PricesSection } from './prices.tsx'

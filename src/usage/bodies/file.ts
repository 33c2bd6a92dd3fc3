/** The name of the file of kept bodies in the data folder. */
export const BODIES_FILE = 'bodies.db'

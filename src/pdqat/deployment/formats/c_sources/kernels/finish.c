/* A pixel's row through all operations, and to where it is kept. */
static void finish(const row_operation *how, int32_t *row, const tensor *to, int pixel)
{
    for (; how != NULL; how = how->next) {
        how->apply(how, row, to->channels, pixel);
        OBSERVE(how, row, to, pixel);
    }
    to->write(to, pixel, row);
}

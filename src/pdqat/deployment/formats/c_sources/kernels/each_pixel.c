/* Operations on every pixel by itself. */
static void each_pixel(const row_operation *how, const tensor *from, const tensor *to)
{
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        from->read(from, pixel, arena.row);
        finish(how, arena.row, to, pixel);
    }
}

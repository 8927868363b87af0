/* What a bit of a plane of codes counts: the highest one of signed codes is negative. */
KERNEL int32_t place_of(const tensor *codes, int plane)
{
    int32_t place = (int32_t)1 << plane;
    return codes->is_signed && plane == codes->planes - 1 ? -place : place;
}
